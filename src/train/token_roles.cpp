#include "train/token_roles.h"

#include <algorithm>

#include "base/file.h"

namespace makar {
namespace {

struct Role {
  const char* name;
  std::vector<const char*> spellings;
};
const std::vector<Role>& all_roles() {
  static const std::vector<Role> roles = {
      {"bos_token", {"<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>"}},
      {"eos_token", {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>"}},
      {"unk_token", {"[UNK]", "<unk>"}},
      {"sep_token", {"[SEP]"}},
      {"pad_token", {"[PAD]", "<pad>", "<|pad|>"}},
      {"cls_token", {"[CLS]"}},
      {"mask_token", {"[MASK]", "<mask>"}}};
  return roles;
}

// "</s>", or {"content": "</s>"}; empty if the file or the field is missing.
std::string named_token(const Json& file, const char* role) {
  if (!file.is_object() || !file.contains(role)) return "";
  const Json& value = file[role];
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return value.is_string() ? value.get<std::string>() : "";
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
}

constexpr std::initializer_list<const char*> kLikeBert = {"bert", "distilbert", "albert", "electra",
                                                          "roformer"};

// The ids under one key: none, one or a list.
std::vector<int64_t> ids_of(const Json& config, const char* key) {
  std::vector<int64_t> out;
  if (!config.contains(key)) return out;
  const Json& value = config[key];
  for (const Json& id : value.is_array() ? value : Json::array({value}))
    if (id.is_number_integer()) out.push_back(id.get<int64_t>());
  return out;
}

constexpr const char* kIdKeys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};

// True if the ids of the config are control tokens of this tokenizer, its end token among them.
bool ids_fit(const Json& config, const TokenRoles& roles, const Tokenizer& tokenizer) {
  for (const char* key : kIdKeys)
    for (const int64_t id : ids_of(config, key))
      if (id < 0 || id >= static_cast<int64_t>(tokenizer.vocab_size()) ||
          !tokenizer.is_special(static_cast<uint32_t>(id)))
        return false;
  const auto eos_ids = ids_of(config, "eos_token_id");
  const int64_t eos = roles.id("eos_token");
  return eos < 0 ? eos_ids.empty() : std::find(eos_ids.begin(), eos_ids.end(), eos) != eos_ids.end();
}

}  // namespace

TokenRoles TokenRoles::of(const Tokenizer& tokenizer, const std::string& folder) {
  TokenRoles out;
  std::vector<Json> files;
  for (const char* name : {"/tokenizer_config.json", "/special_tokens_map.json"})
    if (!folder.empty() && is_file(folder + name))
      if (auto json = read_json(folder + name); json.ok()) files.push_back(std::move(*json));
  for (const Role& role : all_roles()) {
    std::vector<std::string> candidates;
    for (const Json& file : files) candidates.push_back(named_token(file, role.name));
    candidates.insert(candidates.end(), role.spellings.begin(), role.spellings.end());
    for (const std::string& text : candidates)
      if (const auto id = text.empty() ? std::nullopt : tokenizer.id(text)) {
        out.tokens_[role.name] = {text, static_cast<int64_t>(*id)};
        break;
      }
  }
  // GPT-2 has one control token for both the start and the end of a text.
  const auto eos = out.tokens_.find("eos_token");
  if (eos != out.tokens_.end() && eos->second.text == "<|endoftext|>")
    out.tokens_.emplace("bos_token", eos->second);
  return out;
}

int64_t TokenRoles::id(const std::string& role) const {
  const auto it = tokens_.find(role);
  return it == tokens_.end() ? -1 : it->second.id;
}

Json TokenRoles::to_json() const {
  Json out = Json::object();
  for (const auto& [role, token] : tokens_) out[role] = token.text;
  return out;
}

void set_special_ids(Json& config, const TokenRoles& roles, const Tokenizer& tokenizer) {
  if (ids_fit(config, roles, tokenizer)) return;
  const auto id_or_null = [&](const char* role) {
    const int64_t id = roles.id(role);
    return id >= 0 ? Json(id) : Json(nullptr);
  };
  config["bos_token_id"] = id_or_null("bos_token");
  config["eos_token_id"] = id_or_null("eos_token");
  config["pad_token_id"] = id_or_null("pad_token");
  const std::string type = config.value("model_type", "");
  if (is_one_of(type, {"t5", "mt5", "umt5", "marian", "pegasus"}))
    config["decoder_start_token_id"] = id_or_null("pad_token");
  const bool pair = config.value("is_encoder_decoder", Json()) == Json(true);
  if (is_one_of(type, {"bart", "mbart", "m2m_100"}) || (pair && is_one_of(type, {"rnn", "lstm", "gru"})))
    config["decoder_start_token_id"] = id_or_null("eos_token");
  for (const char* key : {"forced_bos_token_id", "forced_eos_token_id"}) config.erase(key);
}

std::string default_tokenizer(const std::string& model_type) {
  return is_one_of(model_type, kLikeBert) ? "wordpiece" : "bpe";
}

std::vector<std::string> control_tokens(const std::string& model_type, const std::string& tokenizer_kind) {
  if (is_one_of(model_type, kLikeBert) || is_one_of(model_type, {"deberta-v2", "modernbert"}))
    return {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  if (is_one_of(model_type, {"bart", "marian", "roberta", "xlm-roberta", "camembert", "mpnet", "mbart",
                             "m2m_100", "pegasus"}))
    return {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
  if (model_type == "xlnet") return {"<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"};
  if (!is_one_of(model_type, {"t5", "mt5", "umt5"}))
    return tokenizer_kind == "char" ? std::vector<std::string>{} : std::vector<std::string>{"<|endoftext|>"};
  std::vector<std::string> out = {"<pad>", "</s>", "<unk>"};
  for (int i = 0; i < 100; ++i) out.push_back(fmt::format("<extra_id_{}>", i));
  return out;
}

}  // namespace makar
