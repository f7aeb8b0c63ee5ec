#include "text/read/gguf_write.h"

#include "text/field.h"
#include "text/read/gguf_pre.h"
#include "text/read/sentencepiece.h"

namespace makar {
namespace {

enum : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused };  // SentencePieceModel::Type

// Text on which pre-tokenizers differ: numbers, contractions, punctuation, case, scripts, white space.
constexpr const char* kProbe =
    "Hello  WORLD's 3.14159 don't I'LL 12 345 67890!!\n\n\t x=y;  foo_bar(camelCase)\r\n  "
    "\u00bfQu\u00e9? na\u00efve \u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f "
    "\u0645\u0631\u062d\u0628\u0627 "
    "e\u0301 \U0001F600\U0001F680 \u20ac5 $7 <a>+~|` 1,000 a1b2 \u2026\u3002 ...\n end ";

// The splits of a pre-tokenizer on the probe: every word is one unknown token.
Result<std::vector<Span>> probe_splits(const Json& normalizer, const Json& pre_tokenizer) {
  Json json = {{"version", "1.0"},
               {"added_tokens", Json::array()},
               {"normalizer", normalizer},
               {"pre_tokenizer", pre_tokenizer}};
  json["model"] = {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", {{"<unk>", 0}}}};
  MAKAR_TRY(const Tokenizer tokenizer, Tokenizer::from_json(std::move(json), "tokenizer.json"));
  MAKAR_TRY(const Encoding encoding, tokenizer.encode(kProbe));
  return encoding.offsets;
}

Result<std::string> find_pre(const Json& json) {
  const Json normalizer = json.value("normalizer", Json()), own_stage = json.value("pre_tokenizer", Json());
  MAKAR_TRY(const std::vector<Span> own_splits, probe_splits(normalizer, own_stage));
  const bool ignore_merges = json.at("model").value("ignore_merges", false);
  std::string same_splits;  // a kind that differs only in ignore_merges
  for (const std::string& kind : gguf_pre_kinds()) {
    MAKAR_TRY(const GgufPre pre, gguf_pre(kind));
    MAKAR_TRY(const std::vector<Span> found, probe_splits(normalizer, pre.pre_tokenizer));
    if (found != own_splits) continue;
    if (pre.ignore_merges == ignore_merges) return kind;
    if (same_splits.empty()) same_splits = kind;
  }
  if (!same_splits.empty()) return same_splits;
  return error_of(Error::Kind::kUnsupported, "pre_tokenizer",
                  "llama.cpp has no equivalent of this tokenizer's pre-tokenizer");
}

void add_added_tokens(const Json& json, GgufVocabulary& out) {
  for (const Json& token : json.value("added_tokens", Json::array())) {
    const auto id = token.at("id").get<size_t>();
    if (id >= out.tokens.size()) out.tokens.resize(id + 1), out.types.resize(id + 1, kUnused);
    if (!out.scores.empty() || out.model != "gpt2") out.scores.resize(out.tokens.size(), 0.0f);
    out.tokens[id] = token.at("content").get<std::string>();
    if (out.types[id] != kUnknown) out.types[id] = token.value("special", false) ? kControl : kUserDefined;
  }
}

Status check_size(uint64_t id) {
  constexpr uint64_t kMaxTokens = 1 << 23;
  if (id < kMaxTokens) return Done{};
  return error_of(Error::Kind::kLimit, "vocab", "has the id {}; the limit is {}", id, kMaxTokens);
}

Status read_vocab(const Json& vocab, GgufVocabulary& out) {
  for (const auto& [token, id] : vocab.items()) {
    const auto at = id.get<uint64_t>();
    MAKAR_RETURN_IF_ERROR(check_size(at));
    if (at >= out.tokens.size()) out.tokens.resize(at + 1), out.types.resize(at + 1, kUnused);
    out.tokens[at] = token, out.types[at] = kNormal;
  }
  return Done{};
}

Status byte_level(const Json& json, GgufVocabulary& out) {
  const Json& model = json.at("model");
  out.model = "gpt2";
  MAKAR_TRY(out.pre, find_pre(json));
  MAKAR_RETURN_IF_ERROR(read_vocab(model.at("vocab"), out));
  MAKAR_TRY(const Json* merges, list_field(model, "merges"));
  for (const Json& merge : *merges)
    out.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                           : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return Done{};
}

// GGUF marks the start of words; BERT's own files mark continuations.
Status wordpiece(const Json& json, GgufVocabulary& out) {
  out.model = "bert";
  MAKAR_RETURN_IF_ERROR(read_vocab(json.at("model").at("vocab"), out));
  const std::string unknown = json.at("model").value("unk_token", "[UNK]");
  for (size_t id = 0; id < out.tokens.size(); ++id) {
    std::string& token = out.tokens[id];
    if (token.size() > 2 && token.front() == '[' && token.back() == ']') {
      out.types[id] = token == unknown ? kUnknown : kControl;
      if (token == unknown) out.unknown = static_cast<uint32_t>(id);
    } else {
      token = token.starts_with("##") ? token.substr(2) : "\u2581" + token;
    }
  }
  return Done{};
}

Status sentencepiece(const Json& json, GgufVocabulary& out) {
  // Added tokens outside the vocabulary are appended to it; SentencePiece cannot store them.
  Json sentencepiece_json = json;
  const size_t size = json.at("model").at("vocab").size();
  Json& added = sentencepiece_json["added_tokens"];
  if (!added.is_array()) added = Json::array();
  Json vocabulary_tokens = Json::array();
  for (const Json& token : added)
    if (token.at("id").get<size_t>() < size) vocabulary_tokens.push_back(token);
  added = std::move(vocabulary_tokens);
  // Gemma splits at spaces after its normaliser has replaced all of them: the split has no effect.
  const Json pre = json.value("pre_tokenizer", Json()), normalizer = json.value("normalizer", Json());
  const Json space = {{"String", " "}};
  if (pre.is_object() && pre.value("type", "") == "Split" && pre.value("pattern", Json()) == space &&
      normalizer.is_object() && normalizer.value("type", "") == "Replace" &&
      normalizer.value("pattern", Json()) == space)
    sentencepiece_json["pre_tokenizer"] = nullptr;
  MAKAR_TRY(const SentencePieceModel model, json_to_sentencepiece(sentencepiece_json));
  out.model = model.kind == SentencePieceModel::kBpe ? "llama" : "t5";
  out.pre = "default";
  for (const auto& piece : model.pieces) {
    out.tokens.push_back(piece.text);
    out.scores.push_back(piece.score);
    out.types.push_back(piece.type);
  }
  out.add_space_prefix = model.add_dummy_prefix;
  if (model.remove_extra_whitespaces) out.remove_extra_whitespaces = true;
  out.character_map = model.character_map;
  if (model.unk_id >= 0) out.unknown = static_cast<uint32_t>(model.unk_id);
  return Done{};
}

// The special tokens of the template: "<s> $A", "$A </s>", "[CLS] $A [SEP]". The processors of BERT and
// RoBERTa store a token as ["</s>", 2].
void read_template(const Json& processor, GgufVocabulary& out) {
  if (const Json* parts = find_field(processor, "processors"))
    for (const Json& part : *parts) read_template(part, out);
  const auto pair_id = [&](const char* key) -> std::optional<uint32_t> {
    const Json* pair = find_field(processor, key);
    if (!pair || !pair->is_array() || pair->size() != 2 || !(*pair)[1].is_number_unsigned())
      return std::nullopt;
    return (*pair)[1].get<uint32_t>();
  };
  if (const auto id = pair_id("cls")) out.bos = id, out.add_bos = true;
  if (const auto id = pair_id("sep")) out.eos = id, out.add_eos = true;
  const Json* single = find_field(processor, "single");
  const Json* specials = find_field(processor, "special_tokens");
  if (!single || !single->is_array() || single->empty() || !specials) return;
  const auto id_of = [&](const Json& part) -> std::optional<uint32_t> {
    const Json* special = find_field(part, "SpecialToken");
    if (!special) return std::nullopt;
    const std::string name = special->value("id", "");
    const Json* entry = find_field(*specials, name.c_str());
    if (!entry || !entry->contains("ids") || (*entry)["ids"].empty()) return std::nullopt;
    return (*entry)["ids"][0].get<uint32_t>();
  };
  if (const auto id = id_of(single->front())) out.bos = id, out.add_bos = true;
  if (const auto id = id_of(single->back())) out.eos = id, out.add_eos = true;
}

}  // namespace

bool GgufVocabulary::pad_to(size_t size) {
  if (tokens.size() > size) return false;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].empty()) tokens[i] = fmt::format("[PAD{}]", i), types[i] = kUnused;
  while (tokens.size() < size) {
    tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
    types.push_back(kUnused);
    if (!scores.empty()) scores.push_back(-1000.0f);  // as llama.cpp's converter
  }
  return true;
}

Result<GgufVocabulary> gguf_vocabulary(const Tokenizer& tokenizer) {
  const Json json = tokenizer.to_json();  // valid and in canonical form
  GgufVocabulary out;
  const Json& model = json.at("model");
  MAKAR_TRY(const std::string type, string_field(model, "type", ""));
  const bool fallback = model.value("byte_fallback", false);
  if (type == "BPE" && !fallback && !find_field(model, "rank_by_piece"))
    MAKAR_RETURN_IF_ERROR(byte_level(json, out));
  else if (type == "WordPiece")
    MAKAR_RETURN_IF_ERROR(wordpiece(json, out));
  else
    MAKAR_RETURN_IF_ERROR(sentencepiece(json, out));
  if (out.model != "bert") add_added_tokens(json, out);
  read_template(json.value("post_processor", Json()), out);
  return out;
}

GgufVocabulary gguf_tokens_only(const Tokenizer& tokenizer) {
  GgufVocabulary out;
  out.model = "none";
  for (uint32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    out.tokens.push_back(tokenizer.token(id).value_or(""));
    out.types.push_back(tokenizer.is_special(id) ? kControl : kNormal);
  }
  read_template(tokenizer.to_json().value("post_processor", Json()), out);
  return out;
}

}  // namespace makar
