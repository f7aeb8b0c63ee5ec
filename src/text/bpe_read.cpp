// Reads and writes the "model" section of type BPE.
#include "base/quote.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/field.h"
#include "text/unicode.h"

namespace makar {

namespace {

struct Pair {
  std::string_view left, right;
};

// "a b" or ["a", "b"]
Result<Pair> read_merge(const Json& merge, size_t rank, const std::string& prefix) {
  Pair pair;
  const auto place = [&] { return fmt::format("merges[{}]", rank); };
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    pair = {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  } else if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      return error_at(place(), "expected two tokens separated by one blank, found {}", quote(text));
    pair = {text.substr(0, space), text.substr(space + 1)};
  } else {
    return error_at(place(), "expected \"a b\" or [\"a\", \"b\"], found {}", merge.type_name());
  }
  if (pair.left.empty() || pair.right.empty()) return error_at(place(), "one of the two tokens is empty");
  if (pair.right.size() < prefix.size())
    return error_at(place(), "{} is shorter than the subword prefix {}", quote(pair.right), quote(prefix));
  return pair;
}

}  // namespace

Status Bpe::read_merges(const Json& json) {
  MAKAR_TRY(const Json* list, list_field(json, "merges"));
  merges_.reserve(list->size());
  order_.reserve(list->size());
  constexpr size_t kBatch = 64;  // merges whose left, right and merged tokens are looked up together
  std::string joined[kBatch];
  std::string_view texts[3 * kBatch];
  uint32_t ids[3 * kBatch];
  for (size_t first = 0; first < list->size(); first += kBatch) {
    const size_t count = std::min(kBatch, list->size() - first);
    for (size_t i = 0; i < count; ++i) {
      MAKAR_TRY(const Pair pair, read_merge((*list)[first + i], first + i, prefix_));
      joined[i].assign(pair.left).append(pair.right.substr(prefix_.size()));
      texts[3 * i] = pair.left;
      texts[3 * i + 1] = pair.right;
      texts[3 * i + 2] = joined[i];
    }
    vocabulary_.find_all({texts, 3 * count}, ids);
    for (size_t i = 0; i < count; ++i)
      if (ids[3 * i] != kNoId && ids[3 * i + 1] != kNoId) merges_.prefetch(ids[3 * i], ids[3 * i + 1]);
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 3 * i; k < 3 * i + 3; ++k)
        if (ids[k] == kNoId)
          return error_at(fmt::format("merges[{}]", first + i), "{} + {}: {} is not in the vocabulary",
                          quote(texts[3 * i]), quote(texts[3 * i + 1]), quote(texts[k]));
      add_merge(ids[3 * i], ids[3 * i + 1], ids[3 * i + 2]);
    }
  }
  return Done{};
}

void Bpe::add_merge(uint32_t left, uint32_t right, uint32_t merged) {
  // rank_by_piece: all merges that give the same piece have the rank of the first, so that the leftmost of
  // them merges first.
  auto rank = static_cast<uint32_t>(order_.size());
  if (rank_by_piece_ && !order_.empty()) {
    const Merge before = merges_.find(order_.back().first, order_.back().second);
    if (before.id == merged) rank = before.rank;
  }
  merges_.add(left, right, {rank, merged});
  order_.emplace_back(left, right);
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
    while (last > 0 && is_utf8_continuation(a[last])) --last;
    const int x = column(a.substr(last)), y = column(b.substr(0, utf8_size(b[0])));
    if (x >= 0 && y >= 0) (*joins_)[x][y] = 1;
  }
  // Unknown characters fuse or lose their offsets, unless each has its own byte token.
  for (int c = 0; c < kColumns; ++c) {
    const std::string text = c == kMarkColumn ? std::string("\u2581") : std::string(1, static_cast<char>(c));
    if (vocabulary_.find(text) != kNoId || (byte_fallback_ && c < kMarkColumn && byte_ids_[c] != kNoId))
      continue;
    for (int d = 0; d < kColumns; ++d) (*joins_)[c][d] = (*joins_)[d][c] = 1;
  }
}

Result<std::unique_ptr<const TokenModel>> Bpe::from_json(const Json& json, bool raw_bytes) {
  std::unique_ptr<Bpe> model(new Bpe());
  const Json* vocab = find_field(json, "vocab");
  if (!vocab) return wrong_field(json, "vocab", "an object that maps tokens to ids");
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
    if (model->unknown_ == kNoId) return error_at("unk_token", "{} is not in the vocabulary", quote(unknown));
  }
  MAKAR_RETURN_IF_ERROR(model->read_merges(json));

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
  return std::unique_ptr<const TokenModel>(std::move(model));
}

void Bpe::write(Json& model) const {
  model["vocab"] = vocabulary_.to_json();
  Json merges = Json::array();
  for (const auto& [left, right] : order_)
    merges.push_back({std::string(*vocabulary_.token(left)), std::string(*vocabulary_.token(right))});
  model["merges"] = std::move(merges);
}

}  // namespace makar
