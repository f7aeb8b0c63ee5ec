// The "model" section of type BPE, read and written.
#include "base/shown.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/field.h"
#include "text/unicode.h"

namespace makar {

Status Bpe::read_merges(const Json& json) {
  MAKAR_TRY(const Json* list, list_field(json, "merges"));
  merges_.reserve(list->size());
  order_.reserve(list->size());
  std::string joined;
  for (size_t rank = 0; rank < list->size(); ++rank) {
    const Json& one = (*list)[rank];
    std::string_view left, right;
    if (one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string()) {
      left = one[0].get_ref<const std::string&>();
      right = one[1].get_ref<const std::string&>();
    } else if (one.is_string()) {
      const std::string_view text = one.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        return error_at(fmt::format("merges[{}]", rank), "expected two tokens and one blank, found {}",
                        shown(text));
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      return error_at(fmt::format("merges[{}]", rank), "expected \"a b\" or [\"a\", \"b\"], found {}",
                      one.type_name());
    }
    if (!prefix_.empty() && right.size() < prefix_.size())
      return error_at(fmt::format("merges[{}]", rank), "{} is shorter than the subword prefix {}",
                      shown(right), shown(prefix_));
    joined.assign(left).append(prefix_.empty() ? right : right.substr(prefix_.size()));
    const uint32_t a = vocabulary_.find(left), b = vocabulary_.find(right), c = vocabulary_.find(joined);
    if (left.empty() || right.empty())
      return error_at(fmt::format("merges[{}]", rank), "one of the two tokens is empty");
    if (a == kNoId || b == kNoId || c == kNoId)
      return error_at(fmt::format("merges[{}]", rank), "{} + {}: {} is not in the vocabulary", shown(left),
                      shown(right),
                      shown(a == kNoId   ? left
                            : b == kNoId ? right
                                         : std::string_view(joined)));
    // By piece: every way to make a piece has the rank of the first, so that the leftmost of them merges
    // first.
    uint32_t used = static_cast<uint32_t>(rank);
    if (rank_by_piece_ && !order_.empty()) {
      const Merge before = merges_.find(order_.back().first, order_.back().second);
      if (before.id == c) used = before.rank;
    }
    merges_.add(a, b, {used, c});
    order_.emplace_back(a, b);
  }
  return Done{};
}

void Bpe::find_joins() {
  if (raw_ || !prefix_.empty() || !suffix_.empty() || ignore_merges_ || dropout_ > 0) return;
  joins_ = std::make_unique<Joins>();
  const auto column = [](std::string_view character) {
    if (character == "\u2581") return kMarkColumn;
    return character.size() == 1 ? static_cast<int>(static_cast<unsigned char>(character[0])) : -1;
  };
  for (const auto& [left, right] : order_) {
    const std::string_view a = *vocabulary_.token(left), b = *vocabulary_.token(right);
    size_t last = a.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(a[last]) & 0xC0) == 0x80) --last;
    const int x = column(a.substr(last)),
              y = column(b.substr(0, utf8_size(static_cast<unsigned char>(b[0]))));
    if (x >= 0 && y >= 0) (*joins_)[x][y] = 1;
  }
  // Unknown characters run together, or leave the offsets, unless each has its own byte token.
  for (int c = 0; c < kColumns; ++c) {
    const std::string text = c == kMarkColumn ? std::string("\u2581") : std::string(1, static_cast<char>(c));
    if (vocabulary_.find(text) != kNoId || (byte_fallback_ && c < kMarkColumn && byte_ids_[c] != kNoId))
      continue;
    for (int d = 0; d < kColumns; ++d) (*joins_)[c][d] = (*joins_)[d][c] = 1;
  }
}

Result<std::unique_ptr<const Model>> Bpe::from_json(const Json& json, bool raw_bytes) {
  std::unique_ptr<Bpe> model(new Bpe());
  const Json* vocab = find_field(json, "vocab");
  if (!vocab) return wrong_field(json, "vocab", "an object of tokens and ids");
  MAKAR_TRY(model->vocabulary_, Vocabulary::from_json(*vocab));
  MAKAR_TRY(model->prefix_, string_field(json, "continuing_subword_prefix", ""));
  MAKAR_TRY(model->suffix_, string_field(json, "end_of_word_suffix", ""));
  MAKAR_TRY(model->byte_fallback_, bool_field(json, "byte_fallback", false));
  MAKAR_TRY(model->fuse_unknown_, bool_field(json, "fuse_unk", false));
  MAKAR_TRY(model->ignore_merges_, bool_field(json, "ignore_merges", false));
  MAKAR_TRY(model->rank_by_piece_, bool_field(json, "rank_by_piece", false));
  if (const Json* dropout = find_field(json, "dropout")) {
    if (!dropout->is_number() || dropout->get<double>() < 0 || dropout->get<double>() > 1)
      return error_at("dropout", "expected a number from 0 to 1, found {}", dropout->dump().substr(0, 40));
    model->dropout_ = dropout->get<double>();
  }
  MAKAR_TRY(const std::string unknown, string_field(json, "unk_token", ""));
  if (!unknown.empty()) {
    model->unknown_ = model->vocabulary_.find(unknown);
    if (model->unknown_ == kNoId) return error_at("unk_token", "{} is not in the vocabulary", shown(unknown));
  }
  MAKAR_CHECK_OK(model->read_merges(json));

  model->raw_ = raw_bytes && model->prefix_.empty() && model->suffix_.empty() && !model->byte_fallback_;
  model->byte_ids_.fill(kNoId);
  if (model->raw_) {
    for (uint32_t id = 0; id < model->vocabulary_.size(); ++id)
      if (const auto token = model->vocabulary_.token(id))
        if (const auto bytes = letters_to_bytes(*token)) model->bytes_.add(*bytes, id);
    model->has_all_bytes_ = true;
    for (int b = 0; b < 256; ++b) {
      model->byte_ids_[b] = model->bytes_.find(std::string(1, static_cast<char>(b)));
      model->has_all_bytes_ = model->has_all_bytes_ && model->byte_ids_[b] != kNoId;
    }
  } else if (model->byte_fallback_) {
    for (int b = 0; b < 256; ++b) model->byte_ids_[b] = model->vocabulary_.find(fmt::format("<0x{:02X}>", b));
  }
  model->find_joins();
  return std::unique_ptr<const Model>(std::move(model));
}

void Bpe::write(Json& model) const {
  model["vocab"] = vocabulary_.to_json();
  Json merges = Json::array();
  for (const auto& [left, right] : order_)
    merges.push_back({std::string(*vocabulary_.token(left)), std::string(*vocabulary_.token(right))});
  model["merges"] = std::move(merges);
}

}  // namespace makar
