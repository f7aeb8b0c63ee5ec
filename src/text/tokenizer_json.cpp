// Builds a Tokenizer from a parsed tokenizer.json, and writes it back.
#include <algorithm>

#include "base/quote.h"
#include "text/fast_bpe.h"
#include "text/fast_sentencepiece.h"
#include "text/fast_words.h"
#include "text/field.h"
#include "text/pipeline.h"
#include "text/unicode.h"

namespace makar {
namespace {

// Whether words reach the model in the byte alphabet, from the last stage of the pre-tokenizer.
bool ends_in_byte_level(const Json& json) {
  if (!json.is_object()) return false;
  const Json* type = find_field(json, "type");
  if (!type || !type->is_string()) return false;
  if (*type == "ByteLevel") return true;
  const Json* parts = find_field(json, "pretokenizers");
  if (!parts || !parts->is_array() || parts->empty()) return false;
  for (size_t i = 0; i + 1 < parts->size(); ++i)
    if (ends_in_byte_level((*parts)[i])) return false;
  return ends_in_byte_level(parts->back());
}

bool contains_byte_level(const Json& json) {
  if (!json.is_object()) return false;
  const Json* type = find_field(json, "type");
  if (type && *type == "ByteLevel") return true;
  for (const char* key : {"pretokenizers", "normalizers"})
    if (const Json* parts = find_field(json, key); parts && parts->is_array())
      for (const Json& part : *parts)
        if (contains_byte_level(part)) return true;
  return false;
}

bool is_plain_bpe(const Json& model) {
  const Json* type = find_field(model, "type");
  if (type ? *type != "BPE" : !find_field(model, "merges")) return false;
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const Json* text = find_field(model, key); text && *text != "") return false;
  const Json* fallback = find_field(model, "byte_fallback");
  return !fallback || *fallback == false;
}

Result<std::vector<AddedToken>> read_added(const Json& json) {
  std::vector<AddedToken> tokens;
  if (!find_field(json, "added_tokens")) return tokens;
  MAKAR_TRY(const Json* list, list_field(json, "added_tokens"));
  for (const Json& entry : *list) {
    AddedToken token;
    MAKAR_TRY(const uint64_t id, count_field(entry, "id"));
    if (id > Vocabulary::kMaxId)
      return error_at("added_tokens", "the id {} exceeds the maximum {}", id, Vocabulary::kMaxId);
    token.id = static_cast<uint32_t>(id);
    MAKAR_TRY(token.content, string_field(entry, "content"));
    MAKAR_TRY(token.single_word, bool_field(entry, "single_word", false));
    MAKAR_TRY(token.lstrip, bool_field(entry, "lstrip", false));
    MAKAR_TRY(token.rstrip, bool_field(entry, "rstrip", false));
    MAKAR_TRY(token.special, bool_field(entry, "special", false));
    MAKAR_TRY(token.normalized, bool_field(entry, "normalized", !token.special));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<std::optional<Truncation>> read_truncation(const Json& json) {
  const Json* section = find_field(json, "truncation");
  if (!section) return std::optional<Truncation>();
  Truncation t;
  MAKAR_TRY(t.max_length, count_field(*section, "max_length", 512));
  MAKAR_TRY(t.stride, count_field(*section, "stride", 0));
  MAKAR_TRY(const std::string strategy, string_field(*section, "strategy", "LongestFirst"));
  MAKAR_TRY(const std::string direction, string_field(*section, "direction", "Right"));
  if (strategy == "OnlyFirst")
    t.strategy = Truncation::Strategy::kOnlyFirst;
  else if (strategy == "OnlySecond")
    t.strategy = Truncation::Strategy::kOnlySecond;
  else if (strategy != "LongestFirst")
    return error_of(Error::Kind::kUnsupported, "truncation",
                    "unknown strategy {}; expected LongestFirst, OnlyFirst or OnlySecond", quote(strategy));
  t.left = direction == "Left";
  return std::optional<Truncation>(t);
}

Result<std::optional<Padding>> read_padding(const Json& json) {
  const Json* section = find_field(json, "padding");
  if (!section) return std::optional<Padding>();
  Padding p;
  if (const Json* strategy = find_field(*section, "strategy"); strategy && strategy->is_object()) {
    MAKAR_TRY(p.length, count_field(*strategy, "Fixed"));
  }
  MAKAR_TRY(p.multiple_of, count_field(*section, "pad_to_multiple_of", 0));
  MAKAR_TRY(const std::string direction, string_field(*section, "direction", "Right"));
  MAKAR_TRY(const uint64_t id, count_field(*section, "pad_id", 0));
  MAKAR_TRY(const uint64_t type, count_field(*section, "pad_type_id", 0));
  MAKAR_TRY(p.token, string_field(*section, "pad_token", "[PAD]"));
  p.left = direction == "Left";
  p.id = static_cast<uint32_t>(id);
  p.type_id = static_cast<uint8_t>(type);
  return std::optional<Padding>(p);
}

std::string_view strip_spaces(std::string_view text) {
  size_t begin = 0, end = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t from = at;
    if (is_space(next_code(text, at))) continue;
    if (end == 0) begin = from;
    end = at;
  }
  return text.substr(begin, end - begin);
}

template <class T>
Result<T> in_section(Result<T> result, const std::string& place, const char* section) {
  if (result.ok()) return result;
  return result.error().in(place + ": " + section);
}

const Json& section(const Json& json, const char* key) {
  static const Json kNull;
  const Json* found = find_field(json, key);
  return found ? *found : kNull;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_json(Json json, const std::string& place) {
  if (!json.is_object() || !find_field(json, "model"))
    return error_at(place, "expected a tokenizer.json: an object with a \"model\"");
  auto impl = std::make_shared<Impl>();
  const Json& pre = section(json, "pre_tokenizer");
  const bool raw_bytes = ends_in_byte_level(pre) && is_plain_bpe(json["model"]);
  impl->byte_level = contains_byte_level(pre) || contains_byte_level(section(json, "normalizer"));
  MAKAR_TRY(impl->normalizer,
            in_section(Normalizer::from_json(section(json, "normalizer")), place, "normalizer"));
  MAKAR_TRY(impl->pre_tokenizer, in_section(PreTokenizer::from_json(pre, raw_bytes), place, "pre_tokenizer"));
  MAKAR_TRY(impl->model, in_section(TokenModel::from_json(json["model"], raw_bytes), place, "model"));
  MAKAR_TRY(impl->decoder, in_section(Decoder::from_json(section(json, "decoder")), place, "decoder"));
  MAKAR_TRY(auto added, in_section(read_added(json), place, "added_tokens"));
  MAKAR_RETURN_IF_ERROR(
      in_section(impl->added.build(std::move(added), impl->normalizer.get()), place, "added_tokens"));
  const auto token_of = [owner = impl.get()](uint32_t token_id,
                                             std::string_view original) -> std::string_view {
    const AddedToken* token = owner->added.by_id(token_id);
    if (!token) return owner->model->vocabulary().token(token_id).value_or("");
    // The covered text includes the blanks that the token stripped from its neighbours.
    const bool same_token =
        (token->lstrip || token->rstrip) && strip_spaces(original) == strip_spaces(token->content);
    return same_token ? original : std::string_view(token->matched_text);
  };
  MAKAR_TRY(impl->post_processor,
            in_section(PostProcessor::from_json(section(json, "post_processor"), token_of), place,
                       "post_processor"));
  MAKAR_TRY(impl->truncation, in_section(read_truncation(json), place, "truncation"));
  MAKAR_TRY(impl->padding, in_section(read_padding(json), place, "padding"));

  if (raw_bytes) impl->raw_bpe = static_cast<const Bpe*>(impl->model.get());
  if (raw_bytes && impl->model->deterministic()) impl->fast_bpe = fast_bpe_kind(pre);
  if (!impl->byte_level && impl->model->splits_before(kBlankMark)) impl->mark = kBlankMark;
  if (impl->model->deterministic()) {
    const FastWords words = fast_words_for(section(json, "normalizer"), pre, impl->mark);
    if (words.kind != FastWords::Kind::kNone) impl->fast_words = std::make_shared<const FastWords>(words);
  }
  if (auto found = FastSentencePiece::find(section(json, "normalizer"), pre, *impl->model))
    impl->fast_sentencepiece = std::make_shared<const FastSentencePiece>(std::move(*found));
  impl->banned = impl->added.special();
  if (impl->model->unknown_id() < impl->banned.size()) impl->banned[impl->model->unknown_id()] = false;
  if (std::none_of(impl->banned.begin(), impl->banned.end(), [](bool b) { return b; })) impl->banned.clear();

  json["model"].erase("vocab");
  json["model"].erase("merges");
  impl->pipeline_json = std::move(json);
  return Tokenizer(std::move(impl));
}

const Json& Tokenizer::pipeline() const { return impl_->pipeline_json; }

Json Tokenizer::to_json() const {
  Json json = impl_->pipeline_json;
  impl_->model->write(json["model"]);
  return json;
}

}  // namespace makar
