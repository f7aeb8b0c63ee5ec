#include "models/gguf_config.h"

#include <cmath>

#include "base/nearest.h"
#include "base/quote.h"
#include "models/gguf_rope.h"

namespace makar {
namespace {

// Finds the family by "general.architecture" and other metadata (a llama with experts is a Mixtral).
Result<const Family*> find_gguf_family(const GgufFields& fields) {
  const auto name = fields.text("general.architecture");
  if (!name)
    return error_at("key 'general.architecture'",
                    "is missing or not a string; check that this is a model file");
  std::vector<std::string> known;
  for (const Family* family : families()) {
    const GgufSection* section = family->gguf;
    if (!section) continue;
    if (*name == section->architecture && (!section->matches || section->matches(fields))) return family;
    if (std::find(known.begin(), known.end(), section->architecture) == known.end())
      known.emplace_back(section->architecture);
  }
  return error_of(Error::Kind::kUnsupported, "key 'general.architecture'",
                  "is {}, which is not supported; supported are {}{}", quote(*name), fmt::join(known, ", "),
                  did_you_mean(*name, known));
}

// The shortest decimal that parses to the same f32: 1e-05, not 9.999999747378752e-06.
double shortest_f32(double v) { return std::stod(fmt::format("{}", static_cast<float>(v))); }

Status put_key(const GgufKey& key, const std::string& full_key, const GgufFields& fields, Json& config) {
  const GgufValue* value = fields.find(full_key);
  if (!value) {
    if (!key.required) return Done{};
    return error_at(fmt::format("key '{}'", full_key), "is missing; the file is not a complete model");
  }
  if (!*key.field) return Done{};
  const auto type_error = [&](const char* expected) {
    return error_at(fmt::format("key '{}'", full_key), "must be {}, found {}", expected,
                    value->description());
  };
  switch (key.kind) {
    case GgufKey::kInteger: {
      const auto v = value->integer();
      if (!v) return type_error("an integer");
      config[key.field] = *v;
      break;
    }
    case GgufKey::kReal: {
      const auto v = value->number();
      if (!v || !std::isfinite(*v)) return type_error("a number");
      config[key.field] = shortest_f32(*v);
      break;
    }
    case GgufKey::kFlag: {
      const auto v = value->flag();
      if (!v) return type_error("true or false");
      config[key.field] = *v;
      break;
    }
  }
  return Done{};
}

void put_tokens(const GgufFields& fields, Json& config) {
  for (const char* name : {"bos", "eos", "pad"}) {
    const std::string key = std::string("tokenizer.ggml.") + (std::string(name) == "pad" ? "padding" : name);
    if (const auto id = fields.integer(key + "_token_id")) config[std::string(name) + "_token_id"] = *id;
  }
}

// The format has no required key for the vocabulary's size, and none for a tied output.
Status put_vocabulary(const Gguf& file, const GgufSection& section, Json& config) {
  const GgufTensor* tokens = file.find("token_embd.weight");
  if (!tokens || tokens->shape.rank() != 2)
    return error_of(
        Error::Kind::kNotFound, "tensor 'token_embd.weight'",
        "is missing or not a matrix; the file is not a complete model (perhaps only a vocabulary)");
  config["vocab_size"] = tokens->shape[0];
  if (!section.body_only) config["tie_word_embeddings"] = file.find("output.weight") == nullptr;
  return Done{};
}

int64_t config_integer(const Json& config, const char* field) {
  return config.contains(field) ? config[field].get<int64_t>() : 0;
}

Status put_rotary(const GgufSection& section, const GgufFields& fields, Json& config) {
  const std::string key = std::string(section.architecture) + ".rope.dimension_count";
  const auto rotary_dim = fields.integer(key);
  const int64_t heads = std::max<int64_t>(1, config_integer(config, "num_attention_heads"));
  const int64_t head_dim = config.contains("head_dim") ? config_integer(config, "head_dim")
                                                       : config_integer(config, "hidden_size") / heads;
  if (section.rotary_share && head_dim > 0)
    config[section.rotary_share] =
        static_cast<double>(rotary_dim.value_or(head_dim)) / static_cast<double>(head_dim);
  else if (rotary_dim && *rotary_dim != head_dim)
    return error_of(
        Error::Kind::kUnsupported, fmt::format("key '{}'", key),
        "rotates {} of {} dimensions of a head; for {}, only rotation of all dimensions is supported",
        *rotary_dim, head_dim, section.architecture);
  return Done{};
}

Result<Json> config_of(const Gguf& file) {
  const GgufFields& fields = file.fields();
  if (fields.integer("split.count").value_or(1) > 1)
    return error_of(Error::Kind::kUnsupported, "key 'split.count'",
                    "is {}; this is one file of a split model: open the first file by its name, with the "
                    "others in the same folder",
                    *fields.integer("split.count"));
  MAKAR_TRY(const Family* family, find_gguf_family(fields));
  const GgufSection& section = *family->gguf;
  Json config = {{"architectures", {section.model}}, {"model_type", family->type}};
  for (const auto& [field, value] : section.implied) config[field] = value;
  for (const GgufKey& key : section.keys)
    MAKAR_RETURN_IF_ERROR(put_key(key, std::string(section.architecture) + "." + key.key, fields, config));
  MAKAR_RETURN_IF_ERROR(put_vocabulary(file, section, config));
  for (const GgufFieldByTensor& field : section.fields_by_tensor)
    config[field.field] = file.find(field.tensor) ? field.present : field.absent;
  MAKAR_RETURN_IF_ERROR(put_rotary(section, fields, config));
  MAKAR_RETURN_IF_ERROR(put_gguf_rope(file, section.architecture, config));
  if (section.derive) section.derive(file, config);
  put_tokens(fields, config);
  return config;
}

}  // namespace

Result<Config> gguf_config(const Gguf& file) {
  auto config = config_of(file);
  if (!config.ok()) return config.error().in(file.place());
  return Config(std::move(*config), file.place() + ": metadata");
}

}  // namespace makar
