#include "models/tokenizer_hash.h"

#include "base/file.h"

namespace makar {
namespace {

constexpr const char* kTokenizerKey = "makar.tokenizer_hash";
constexpr const char* kTemplateKey = "makar.chat_template_hash";

constexpr uint64_t kFnvOffset = 0xcbf29ce484222325u, kFnvPrime = 0x100000001b3u;

uint64_t add(uint64_t h, std::string_view text) {
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * kFnvPrime;
  return h;
}
std::string digits(uint64_t h) { return fmt::format("{:016x}", h); }

void compare(const std::string& place, const char* what, const std::string& stored,
             const std::string& current, std::vector<std::string>& out) {
  if (stored.empty() || stored == current) return;
  out.push_back(fmt::format(
      "{}: the {} {} (hash {}, the model was converted with {}); the model may generate nonsense: "
      "restore the original or "
      "convert again",
      place, what, current.empty() ? "is missing" : "was changed", current.empty() ? "none" : current,
      stored));
}

}  // namespace

std::string text_hash(std::string_view text) { return digits(add(kFnvOffset, text)); }

std::string gguf_tokenizer_hash(const GgufFields& fields) {
  uint64_t h = kFnvOffset;
  for (const auto& [key, value] : fields.list())
    if (key.starts_with("tokenizer.ggml.") || key == "tokenizer.huggingface.json")
      h = add(add(h, key), value.payload());
  return h == kFnvOffset ? "" : digits(h);
}

std::string gguf_template_hash(const GgufFields& fields) {
  const auto text = fields.text("tokenizer.chat_template");
  return text ? text_hash(*text) : "";
}

void put_tokenizer_hashes(GgufFields& fields) {
  fields.erase(kTokenizerKey), fields.erase(kTemplateKey);
  if (const std::string h = gguf_tokenizer_hash(fields); !h.empty())
    fields.set(kTokenizerKey, GgufValue::text(h));
  if (const std::string h = gguf_template_hash(fields); !h.empty())
    fields.set(kTemplateKey, GgufValue::text(h));
}

std::string folder_tokenizer_hash(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  if (!is_file(path)) return "";
  const auto text = read_file(path);
  return text.ok() ? text_hash(*text) : "";
}

std::string folder_template_hash(const std::string& folder) {
  if (is_file(folder + "/chat_template.jinja")) {
    const auto text = read_file(folder + "/chat_template.jinja");
    return text.ok() ? text_hash(*text) : "";
  }
  const std::string path = folder + "/tokenizer_config.json";
  if (!is_file(path)) return "";
  const auto json = read_json(path);
  if (!json.ok() || !json->is_object() || !json->contains("chat_template")) return "";
  const Json& value = (*json)["chat_template"];
  return value.is_string() ? text_hash(value.get<std::string>()) : text_hash(value.dump());
}

std::vector<std::string> tokenizer_warnings(const ModelSource& source) {
  std::vector<std::string> out;
  if (source.gguf) {
    const GgufFields& f = source.gguf->fields();
    compare(source.path, "tokenizer", f.text(kTokenizerKey).value_or(""), gguf_tokenizer_hash(f), out);
    compare(source.path, "chat template", f.text(kTemplateKey).value_or(""), gguf_template_hash(f), out);
    return out;
  }
  const auto stored_hash = [&](const char* key) {
    const Json& config = source.config.json();
    return config.contains(key) && config[key].is_string() ? config[key].get<std::string>() : std::string();
  };
  if (const std::string hash = stored_hash(kTokenizerKey); !hash.empty())
    compare(source.path, "tokenizer", hash, folder_tokenizer_hash(source.path), out);
  if (const std::string hash = stored_hash(kTemplateKey); !hash.empty())
    compare(source.path, "chat template", hash, folder_template_hash(source.path), out);
  return out;
}

}  // namespace makar
