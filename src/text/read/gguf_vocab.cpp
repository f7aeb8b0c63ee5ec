// tokenizer.ggml.*: the vocabulary of llama.cpp's files. Kinds: llama (SentencePiece BPE), gpt2 (byte-level
// BPE), bert (WordPiece), t5 (unigram), rwkv (the longest token at each byte), none (other pipelines, in
// tokenizer.huggingface.json).
#include "text/byte_alphabet.h"
#include "text/read/build_json.h"
#include "text/read/gguf_metadata.h"
#include "text/read/gguf_pre.h"
#include "text/read/read.h"
#include "text/read/sentencepiece.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace makar {
namespace {

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int64_t> types;  // SentencePieceModel::Type
};

constexpr const char* kKeyPrefix = "tokenizer.ggml.";
std::string key(const char* name) { return std::string(kKeyPrefix) + name; }

Result<Tokens> read_tokens(const GgufMetadata& metadata) {
  const auto* texts = metadata.texts(key("tokens"));
  if (!texts) return error_at(key("tokens"), "expected a list of strings; this file has no vocabulary");
  if (texts->size() > Vocabulary::kMaxId)
    return error_of(Error::Kind::kLimit, key("tokens"), "has {} tokens; the limit is {}", texts->size(),
                    Vocabulary::kMaxId);
  Tokens tokens;
  for (const std::string_view text : *texts) tokens.texts.push_back(to_valid_utf8(text));
  const auto* types = metadata.numbers(key("token_type"));
  if (types && types->size() != texts->size())
    return error_at(key("token_type"), "has {} entries for {} tokens", types->size(), texts->size());
  tokens.types = types ? *types : std::vector<int64_t>(texts->size(), SentencePieceModel::kNormal);
  return tokens;
}

void add_specials(const Tokens& tokens, Json& json) {
  for (uint32_t id = 0; id < tokens.texts.size(); ++id)
    if (tokens.types[id] == SentencePieceModel::kUnknown ||
        tokens.types[id] == SentencePieceModel::kControl ||
        tokens.types[id] == SentencePieceModel::kUserDefined)
      if (!tokens.texts[id].empty())
        json["added_tokens"].push_back(
            added_token(id, tokens.texts[id], tokens.types[id] != SentencePieceModel::kUserDefined));
}

// The special tokens that llama.cpp adds around a text.
void add_template(const GgufMetadata& metadata, const Tokens& tokens, bool bos, bool eos,
                  const char* last_key, Json& json) {
  using List = std::vector<std::pair<std::string, uint32_t>>;
  const auto list = [&](const char* name) -> List {
    const int64_t id = metadata.number(key(name), -1);
    if (id < 0 || id >= static_cast<int64_t>(tokens.texts.size())) return {};
    return {{tokens.texts[id], static_cast<uint32_t>(id)}};
  };
  const List before = metadata.flag(key("add_bos_token"), bos) ? list("bos_token_id") : List{};
  const List after = metadata.flag(key("add_eos_token"), eos) ? list(last_key) : List{};
  if (!before.empty() || !after.empty()) json["post_processor"] = template_processor(before, after);
}

Result<SentencePieceModel> sentencepiece(const GgufMetadata& metadata, const Tokens& tokens, int kind) {
  const auto* scores = metadata.reals(key("scores"));
  if (!scores || scores->size() != tokens.texts.size())
    return error_at(key("scores"), "expected {} scores, one per token", tokens.texts.size());
  SentencePieceModel model;
  model.kind = kind;
  for (size_t i = 0; i < tokens.texts.size(); ++i)
    model.pieces.push_back(
        {tokens.texts[i], static_cast<float>((*scores)[i]), static_cast<int>(tokens.types[i])});
  model.byte_fallback = false;
  for (const int64_t type : tokens.types)
    model.byte_fallback = model.byte_fallback || type == SentencePieceModel::kByte;
  model.add_dummy_prefix = metadata.flag(key("add_space_prefix"), true);
  model.remove_extra_whitespaces = metadata.flag(key("remove_extra_whitespaces"), false);
  if (const auto* map = metadata.numbers(key("precompiled_charsmap")))
    for (const int64_t byte : *map) model.character_map.push_back(static_cast<char>(byte));
  return model;
}

Result<Json> byte_level(const GgufMetadata& metadata, const Tokens& tokens) {
  const auto* merges = metadata.texts(key("merges"));
  if (!merges) return error_at(key("merges"), "expected a list of strings");
  MAKAR_TRY(GgufPre pre, gguf_pre(std::string(metadata.text(key("pre"), "default"))));
  Json json = empty_tokenizer();
  Json vocab = Json::object(), list = Json::array();
  Vocabulary seen;
  for (uint32_t id = 0; id < tokens.texts.size(); ++id) {
    if (seen.find(tokens.texts[id]) == kNoId) put_token(vocab, tokens.texts[id], id);
    seen.add(tokens.texts[id], id);
  }
  for (const std::string_view merge : *merges) list.push_back(to_valid_utf8(merge));
  add_specials(tokens, json);
  json["pre_tokenizer"] = std::move(pre.pre_tokenizer);
  json["decoder"] = byte_level_stage(true, true);
  json["model"] = bpe_model(std::move(vocab), std::move(list), pre.ignore_merges);
  return json;
}

// GGUF marks the start of words; BERT's own files mark continuations.
Result<Json> wordpiece(const Tokens& tokens, const std::string& place) {
  std::string text;
  for (uint32_t id = 0; id < tokens.texts.size(); ++id) {
    const std::string& token = tokens.texts[id];
    if (token.starts_with(kBlankMark))
      text += token.substr(kBlankMark.size());
    else if (tokens.types[id] == SentencePieceModel::kNormal)
      text += "##" + token;
    else
      text += token;
    text += '\n';
  }
  return bert_vocab_to_json(text, true, place);
}

// Tokens are written like string literals: \n, \t, \\, \xHH.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    const auto digit = [](char h) {
      return h >= '0' && h <= '9'   ? h - '0'
             : h >= 'a' && h <= 'f' ? h - 'a' + 10
             : h >= 'A' && h <= 'F' ? h - 'A' + 10
                                    : -1;
    };
    if (c == 'x' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
  }
  return out;
}

Json rwkv(const Tokens& tokens) {
  Json vocab = Json::object();
  Vocabulary seen;
  for (uint32_t id = 0; id < tokens.texts.size(); ++id) {
    const std::string letters = tokens.types[id] == SentencePieceModel::kControl
                                    ? tokens.texts[id]
                                    : bytes_to_letters(unescape(tokens.texts[id]));
    if (seen.find(letters) == kNoId) put_token(vocab, letters, id);
    seen.add(letters, id);
  }
  Json json = empty_tokenizer();
  json["pre_tokenizer"] = byte_level_stage(false, false);
  json["decoder"] = byte_level_stage(false, false);
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", tokens.texts.empty() ? "" : tokens.texts[0]},
                   {"continuing_subword_prefix", ""},
                   {"max_input_chars_per_word", uint64_t{1} << 40}};
  json["model"]["vocab"] = std::move(vocab);
  return json;
}

Result<Json> convert(std::string_view bytes, const std::string& place) {
  MAKAR_TRY(const GgufMetadata metadata, GgufMetadata::parse(bytes, "tokenizer."));
  const std::string kind(metadata.text(key("model")));
  if (const auto text = metadata.text("tokenizer.huggingface.json"); kind == "none" && !text.empty())
    return parse_json(std::string(text), "tokenizer.huggingface.json");
  MAKAR_TRY(const Tokens tokens, read_tokens(metadata));
  Json json;
  if (kind == "llama" || kind == "t5") {
    MAKAR_TRY(const SentencePieceModel model,
              sentencepiece(metadata, tokens,
                            kind == "llama" ? SentencePieceModel::kBpe : SentencePieceModel::kUnigram));
    MAKAR_TRY(json, sentencepiece_to_json(model, place));
    add_template(metadata, tokens, kind == "llama", kind == "t5", "eos_token_id", json);
  } else if (kind == "gpt2") {
    MAKAR_TRY(json, byte_level(metadata, tokens));
    add_template(metadata, tokens, false, false, "eos_token_id", json);
  } else if (kind == "bert") {
    MAKAR_TRY(json, wordpiece(tokens, place));
  } else if (kind == "rwkv") {
    json = rwkv(tokens);
  } else {
    return error_of(Error::Kind::kUnsupported, key("model"),
                    "unknown kind '{}'; expected llama, gpt2, bert, t5 or rwkv", kind.substr(0, 80));
  }
  return json;
}

}  // namespace

Result<Json> gguf_to_json(std::string_view bytes, const std::string& place) {
  auto json = convert(bytes, place);
  if (!json.ok() && !json.error().place.starts_with(place)) return json.error().in(place);
  return json;
}

}  // namespace makar
