#include "convert/tokenizer_fields.h"

#include "base/file.h"
#include "formats/gguf_writer.h"
#include "text/read/gguf_write.h"
#include "text/read/read.h"
#include "text/tokenizer.h"

namespace makar {
namespace {

const std::string kPrefix = "tokenizer.ggml.";
constexpr const char* kTokenizerJsonKey = "tokenizer.huggingface.json";

struct SpecialToken {
  const char* field;  // in tokenizer_config.json and special_tokens_map.json
  const char* key;    // in GGUF, after kPrefix; "seperator" is GGUF's spelling
};
constexpr SpecialToken kSpecials[] = {{"bos_token", "bos_token_id"},     {"eos_token", "eos_token_id"},
                                      {"unk_token", "unknown_token_id"}, {"sep_token", "seperator_token_id"},
                                      {"pad_token", "padding_token_id"}, {"cls_token", "cls_token_id"},
                                      {"mask_token", "mask_token_id"}};

// A JSON file next to the tokenizer; empty when there is none.
Result<Json> optional_object(const std::string& path) {
  if (!is_file(path)) return Json::object();
  MAKAR_TRY(Json json, read_json(path));
  if (!json.is_object()) return error_at(path, "must be a JSON object, found {}", json.type_name());
  return json;
}

// "</s>", or {"content": "</s>", ...}
std::string token_text(const Json& object, const char* field) {
  if (!object.contains(field)) return "";
  const Json& value = object[field];
  if (value.is_string()) return value.get<std::string>();
  return value.is_object() && value.contains("content") && value["content"].is_string()
             ? value["content"].get<std::string>()
             : "";
}

Result<std::string> chat_template(const std::string& folder, const Json& config) {
  if (is_file(folder + "/chat_template.jinja")) return read_file(folder + "/chat_template.jinja", 16 << 20);
  if (!config.contains("chat_template")) return std::string();
  const Json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array())  // several by name: use the default one
    for (const Json& one : value)
      if (one.is_object() && one.value("name", "") == "default") return one.value("template", "");
  return std::string();
}

void put_ids(const GgufVocabulary& v, const Json& config, const Json& map, const ModelSpec& spec,
             GgufFields& fields) {
  const auto find = [&](const std::string& text) -> std::optional<uint32_t> {
    for (size_t i = 0; i < v.tokens.size() && !text.empty(); ++i)
      if (v.tokens[i] == text) return static_cast<uint32_t>(i);
    return std::nullopt;
  };
  for (const SpecialToken& s : kSpecials) {
    std::optional<uint32_t> id = find(token_text(config, s.field));
    if (!id) id = find(token_text(map, s.field));
    const std::string field = s.field;
    if (!id && field == "bos_token")
      id = v.bos ? v.bos : spec.bos >= 0 ? std::optional<uint32_t>(spec.bos) : id;
    if (!id && field == "eos_token")
      id = v.eos ? v.eos : !spec.eos.empty() ? std::optional<uint32_t>(spec.eos[0]) : id;
    if (!id && field == "pad_token" && spec.pad >= 0) id = static_cast<uint32_t>(spec.pad);
    if (!id && field == "unk_token") id = v.unknown;
    if (id && *id < v.tokens.size()) fields.set(kPrefix + s.key, GgufValue::u32(*id));
  }
}

}  // namespace

Result<bool> put_tokenizer(const std::string& folder, const ModelSpec& spec, GgufFields& fields) {
  const auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer.ok() && tokenizer.error().kind == Error::Kind::kNotFound) return false;
  if (!tokenizer.ok()) return tokenizer.error();
  auto vocabulary = gguf_vocabulary(*tokenizer);
  if (!vocabulary.ok() && vocabulary.error().kind == Error::Kind::kUnsupported) {
    // llama.cpp does not support it: the file stores the whole tokenizer.json, under GGUF's key for that.
    fields.set(kTokenizerJsonKey, GgufValue::text(tokenizer->to_json().dump()));
    vocabulary = gguf_tokens_only(*tokenizer);
  }
  if (!vocabulary.ok()) return vocabulary.error().in(folder);
  GgufVocabulary& v = *vocabulary;
  if (!v.pad_to(static_cast<size_t>(spec.vocab)))
    return error_at(folder,
                    "its tokenizer has {} tokens but the model has {}; they belong to different models",
                    v.tokens.size(), spec.vocab);
  MAKAR_TRY(const Json config, optional_object(folder + "/tokenizer_config.json"));
  MAKAR_TRY(const Json map, optional_object(folder + "/special_tokens_map.json"));
  fields.set(kPrefix + "model", GgufValue::text(v.model));
  fields.set(kPrefix + "pre", GgufValue::text(v.pre.empty() ? "default" : v.pre));
  fields.set(kPrefix + "tokens", GgufValue::texts(v.tokens));
  if (!v.scores.empty()) fields.set(kPrefix + "scores", GgufValue::f32s(v.scores));
  fields.set(kPrefix + "token_type", GgufValue::i32s(v.types));
  if (v.model == "gpt2") fields.set(kPrefix + "merges", GgufValue::texts(v.merges));
  if (spec.encoder && !spec.decoder) {
    const auto types = static_cast<uint32_t>(spec.main().embedding.types);
    fields.set(kPrefix + "token_type_count", GgufValue::u32(types));
  }
  put_ids(v, config, map, spec, fields);
  if (v.model != "bert") {
    fields.set(kPrefix + "add_bos_token", GgufValue::flag(v.add_bos));
    fields.set(kPrefix + "add_eos_token", GgufValue::flag(v.add_eos));
  }
  if (v.add_space_prefix) fields.set(kPrefix + "add_space_prefix", GgufValue::flag(*v.add_space_prefix));
  if (v.remove_extra_whitespaces)
    fields.set(kPrefix + "remove_extra_whitespaces", GgufValue::flag(*v.remove_extra_whitespaces));
  if (!v.character_map.empty())
    fields.set(kPrefix + "precompiled_charsmap", GgufValue::bytes(v.character_map));
  MAKAR_TRY(const std::string text, chat_template(folder, config));
  if (!text.empty()) fields.set("tokenizer.chat_template", GgufValue::text(text));
  return true;
}

Result<bool> write_tokenizer(const GgufFields& fields, const std::string& folder) {
  const GgufValue* tokens = fields.find(kPrefix + "tokens");
  if (!tokens) return false;
  GgufFields vocabulary;  // written as a GGUF file in memory, which is what the reader parses
  for (const auto& [key, value] : fields.list())
    if (key.starts_with("tokenizer.")) vocabulary.set(key, value);
  MAKAR_TRY(const Json json, gguf_to_json(gguf_bytes(vocabulary), "metadata"));
  MAKAR_RETURN_IF_ERROR(write_file(folder + "/tokenizer.json", dump(json, 2) + "\n"));
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  const auto texts = tokens->texts().value_or(std::vector<std::string_view>());
  for (const SpecialToken& s : kSpecials) {
    const auto id = fields.integer(kPrefix + s.key);
    if (id && *id >= 0 && *id < static_cast<int64_t>(texts.size()))
      config[s.field] = std::string(texts[static_cast<size_t>(*id)]);
  }
  for (const char* key : {"add_bos_token", "add_eos_token"})
    if (const GgufValue* value = fields.find(kPrefix + key); value && value->flag())
      config[key] = *value->flag();
  const auto text = fields.text("tokenizer.chat_template");
  if (text) config["chat_template"] = *text;
  const std::string out = dump(config, 2) + "\n";
  MAKAR_RETURN_IF_ERROR(write_file(folder + "/tokenizer_config.json", out));
  return true;
}

}  // namespace makar
