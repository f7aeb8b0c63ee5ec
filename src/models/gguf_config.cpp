#include "models/gguf_config.h"

#include <cmath>

#include "base/quote.h"
#include "models/gguf_rope.h"

namespace makar {
namespace {

// The shortest decimal that parses to the same f32: 1e-05, not 9.999999747378752e-06.
double shortest_f32(double v) { return std::stod(fmt::format("{}", static_cast<float>(v))); }

Status put_key(const GgufKey& key, const std::string& full, const GgufFields& fields, Json& config) {
  const GgufValue* value = fields.find(full);
  if (!value) {
    if (!key.required) return Done{};
    return error_at(fmt::format("key '{}'", full), "is missing; the file is not a complete model");
  }
  if (!*key.field) return Done{};
  const auto wrong = [&](const char* expected) {
    return error_at(fmt::format("key '{}'", full), "must be {}, found {}", expected, value->description());
  };
  switch (key.kind) {
    case GgufKey::kInteger: {
      const auto v = value->integer();
      if (!v) return wrong("an integer");
      config[key.field] = *v;
      break;
    }
    case GgufKey::kReal: {
      const auto v = value->number();
      if (!v || !std::isfinite(*v)) return wrong("a number");
      config[key.field] = shortest_f32(*v);
      break;
    }
    case GgufKey::kFlag: {
      const auto v = value->flag();
      if (!v) return wrong("true or false");
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

// Fields derived from the shapes and the presence of tensors; `a` is the architecture.
Status put_shapes(const Gguf& file, const GgufArchitecture& a, Json& config) {
  const auto has = [&](const char* name) { return file.find(name) != nullptr; };
  const std::string name = a.name;
  const GgufTensor* tokens = file.find("token_embd.weight");
  if (!tokens || tokens->shape.rank() != 2)
    return error_of(
        Error::Kind::kNotFound, "tensor 'token_embd.weight'",
        "is missing or not a matrix; the file is not a complete model (perhaps only a vocabulary)");
  config["vocab_size"] = tokens->shape[0];
  if (name == "bert") {
    const GgufTensor* types = file.find("token_types.weight");
    config["type_vocab_size"] = types && types->shape.rank() == 2 ? types->shape[0] : 0;
    config["add_pooling_layer"] = false;
    return Done{};
  }
  config["tie_word_embeddings"] = !has("output.weight");
  if (name == "llama") config["attention_bias"] = has("blk.0.attn_q.bias");
  if (name == "t5") config["feed_forward_proj"] = has("enc.blk.0.ffn_gate.weight") ? "gated-gelu" : "relu";
  if (name == "falcon") {
    const bool newer = has("blk.0.attn_norm_2.weight") || config["num_kv_heads"] > 1;
    config["new_decoder_architecture"] = newer;
    config["multi_query"] = config["num_kv_heads"] == 1;
    if (newer) config["num_ln_in_parallel_attn"] = has("blk.0.attn_norm_2.weight") ? 2 : 1;
  }
  return Done{};
}

// GGUF has no key for Gemma 2's attention scale: the 27B model uses width / heads, smaller ones the head
// size.
double gemma_scalar(int64_t layers, int64_t width, int64_t heads, int64_t head_dim) {
  return layers == 46 ? static_cast<double>(width) / static_cast<double>(heads)
                      : static_cast<double>(head_dim);
}

int64_t whole(const Json& config, const char* field) {
  return config.contains(field) ? config[field].get<int64_t>() : 0;
}

Status put_derived(const GgufArchitecture& a, const GgufFields& fields, Json& config) {
  const std::string name = a.name;
  const int64_t heads = std::max<int64_t>(1, whole(config, "num_attention_heads"));
  const int64_t each =
      config.contains("head_dim") ? whole(config, "head_dim") : whole(config, "hidden_size") / heads;
  if (name == "gemma2")
    config["query_pre_attn_scalar"] =
        gemma_scalar(whole(config, "num_hidden_layers"), whole(config, "hidden_size"), heads, each);
  const auto turned = fields.integer(name + ".rope.dimension_count");
  if (name == "gptneox" && turned && each > 0)
    config["rotary_pct"] = static_cast<double>(*turned) / static_cast<double>(each);
  else if (turned && *turned != each)
    return error_of(
        Error::Kind::kUnsupported, fmt::format("key '{}.rope.dimension_count'", name),
        "rotates {} of {} dimensions of a head; for {}, only rotation of all dimensions is supported",
        *turned, each, name);
  return Done{};
}

Result<Json> config_of(const Gguf& file) {
  const GgufFields& fields = file.fields();
  if (fields.integer("split.count").value_or(1) > 1)
    return error_of(Error::Kind::kUnsupported, "key 'split.count'",
                    "is {}; this is one file of a split model: open the first file by its name, with the "
                    "others in the same folder",
                    *fields.integer("split.count"));
  MAKAR_TRY(const GgufArchitecture* a, find_gguf_architecture(fields));
  Json config = {{"architectures", {a->model}}, {"model_type", a->model_type}};
  for (const auto& [field, value] : a->implied) config[field] = value;
  for (const GgufKey& key : a->keys)
    MAKAR_CHECK_OK(put_key(key, std::string(a->name) + "." + key.key, fields, config));
  MAKAR_CHECK_OK(put_shapes(file, *a, config));
  MAKAR_CHECK_OK(put_derived(*a, fields, config));
  MAKAR_CHECK_OK(put_gguf_rope(file, a->name, config));
  put_tokens(fields, config);
  return config;
}

Status check_implied(const ModelSpec& spec, const GgufArchitecture& a) {
  const auto refuse = [&](const std::string& what) {
    return error_of(Error::Kind::kUnsupported, "", "GGUF's architecture {} cannot represent a model with {}",
                    a.name, what);
  };
  for (const auto& [field, value] : a.implied)
    if (spec.config.contains(field) && !spec.config[field].is_null() && spec.config[field] != value)
      return refuse(fmt::format("{} = {}; it requires {}", field, spec.config[field].dump(), value.dump()));
  const BlockSpec& b = spec.main().first();
  const std::string name = a.name;
  if (name == "gemma2") {
    const double scalar =
        gemma_scalar(spec.main().layers(), spec.main().width, b.attention.heads, b.attention.head_dim);
    if (std::abs(b.attention.scale * std::sqrt(scalar) - 1.0) > 1e-4)
      return refuse(fmt::format("query_pre_attn_scalar other than {}", scalar));
  }
  if (name == "bloom" && b.feed_forward.width != 4 * spec.main().width)
    return refuse("a different feed-forward width");
  if (name == "t5" && spec.config.contains("feed_forward_proj") &&
      spec.config["feed_forward_proj"] != "relu" && spec.config["feed_forward_proj"] != "gated-gelu")
    return refuse("feed_forward_proj = " + spec.config["feed_forward_proj"].dump());
  const bool lm = spec.head.kind == HeadKind::kCausalLm;
  if (!lm && name != "bert") return refuse("the head of a " + spec.architecture);
  return Done{};
}

}  // namespace

Result<Config> gguf_config(const Gguf& file) {
  auto config = config_of(file);
  if (!config.ok()) return config.error().in(file.place());
  return Config(std::move(*config), file.place() + ": metadata");
}

Result<GgufFields> gguf_fields(const ModelSpec& spec) {
  const GgufArchitecture* a = gguf_architecture_of(spec.family);
  if (!a)
    return error_of(Error::Kind::kUnsupported, "", "GGUF has no architecture for the family {}",
                    quote(spec.family));
  MAKAR_CHECK_OK(check_implied(spec, *a));
  GgufFields fields;
  fields.set("general.architecture", GgufValue::text(a->name));
  fields.set("general.type", GgufValue::text("model"));
  for (const GgufKey& key : a->keys) {
    const double v = key.value(spec);
    if (v < 0) continue;
    const std::string full = std::string(a->name) + "." + key.key;
    fields.set(full, key.kind == GgufKey::kInteger ? GgufValue::u32(static_cast<uint32_t>(v))
                     : key.kind == GgufKey::kReal  ? GgufValue::f32(static_cast<float>(v))
                                                   : GgufValue::flag(v != 0));
  }
  MAKAR_CHECK_OK(put_rope_fields(spec, a->name, fields));
  return fields;
}

}  // namespace makar
