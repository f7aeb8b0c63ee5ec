#include "quant/reduced_config.h"

#include <algorithm>

#include "nn/block_parts.h"

namespace makar {
namespace {

// The config fields for the same number in different families.
constexpr const char* kLayerFields[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
constexpr const char* kHeadFields[] = {"num_attention_heads", "n_head", "n_heads", "num_heads"};
constexpr const char* kGroupFields[] = {"num_key_value_heads", "num_kv_heads", "n_head_kv"};
constexpr const char* kChannelFields[] = {"intermediate_size", "n_inner", "ffn_dim",     "hidden_dim", "d_ff",
                                          "ffn_hidden_size",   "d_inner", "block_ff_dim"};

// Families whose classes in transformers compute the size of a head from the width, whatever head_dim says.
constexpr const char* kHeadSizeFromWidth[] = {"stablelm"};

// How many of the first layers are of another kind.
constexpr const char* kFirstLayersFields[] = {"first_k_dense_replace", "max_window_layers"};
// Lists of the numbers of layers.
constexpr const char* kLayerNumberFields[] = {"full_attn_idxs", "mlp_only_layers"};

void set_fields(Json& config, std::span<const char* const> fields, int64_t before, int64_t after) {
  for (const char* field : fields)
    if (const auto it = config.find(field); it != config.end() && it->is_number_integer() && *it == before)
      *it = after;
}

// The kept layers in the fields that speak of single layers: lists with an entry per layer (their names have
// "layer" in them: layer_types, attention_layers), lists of numbers of layers, and numbers of first layers.
void keep_layers(Json& config, const std::vector<int64_t>& layers, int64_t before) {
  const auto names_layers = [](const std::string& key) {
    return std::find(std::begin(kLayerNumberFields), std::end(kLayerNumberFields), key) !=
           std::end(kLayerNumberFields);
  };
  for (auto& item : config.items()) {
    Json& value = item.value();
    if (!value.is_array()) continue;
    Json kept = Json::array();
    if (names_layers(item.key())) {
      for (size_t i = 0; i < layers.size(); ++i)
        if (std::find(value.begin(), value.end(), Json(layers[i])) != value.end()) kept.push_back(i);
    } else if (static_cast<int64_t>(value.size()) == before &&
               item.key().find("layer") != std::string::npos) {
      for (const int64_t layer : layers) kept.push_back(value[static_cast<size_t>(layer)]);
    } else {
      continue;
    }
    value = kept;
  }
  for (const char* field : kFirstLayersFields)
    if (const auto it = config.find(field); it != config.end() && it->is_number_integer())
      *it = std::count_if(layers.begin(), layers.end(),
                          [first = it->get<int64_t>()](int64_t layer) { return layer < first; });
}

// GPT-Neo has its pattern twice; other programs read pairs of a list of kinds and its repetitions.
void write_attention_types(Json& config, const std::vector<BlockSpec>& blocks) {
  if (!config.contains("attention_types")) return;
  Json kinds = Json::array();
  for (const BlockSpec& b : blocks) kinds.push_back(b.attention.window > 0 ? "local" : "global");
  config["attention_types"] = Json::array({Json::array({kinds, 1})});
  config["attention_layers"] = kinds;
}

// The kind of every layer, in the fields of newer configs: they express what a period of layers cannot.
void write_layer_kinds(Json& config, const std::string& family, const std::vector<BlockSpec>& blocks) {
  Json types = Json::array(), rotated = Json::array();
  for (const BlockSpec& b : blocks) {
    types.push_back(b.mixer ? "conv" : b.attention.window > 0 ? "sliding_attention" : "full_attention");
    rotated.push_back(b.attention.rope ? 1 : 0);
  }
  config["layer_types"] = types;
  const auto is_set = [&](const char* key) { return config.contains(key) && !config[key].is_null(); };
  if (family == "smollm3" || is_set("no_rope_layers")) config["no_rope_layers"] = rotated;
  if (!is_set("decoder_sparse_step")) return;
  config["decoder_sparse_step"] = 1, config["mlp_only_layers"] = Json::array();
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].feed_forward.experts == 0) config["mlp_only_layers"].push_back(i);
}

// The blocks of the reduced model.
std::vector<BlockSpec> reduced_blocks(const StackSpec& s, const Reduction& reduction) {
  const int64_t groups = kept_count(reduction.groups), channels = kept_count(reduction.channels);
  std::vector<BlockSpec> out;
  for (const int64_t layer : reduction.layers) {
    BlockSpec& b = out.emplace_back(s.blocks[static_cast<size_t>(layer)]);
    AttentionSpec& a = b.attention;
    if (groups > 0) a.heads = groups * (a.heads / a.kv_heads), a.kv_heads = groups;
    if (channels > 0 && has_feed_forward(b)) b.feed_forward.width = channels;
  }
  return out;
}

Json reduced_config(const ModelSpec& spec, const Reduction& reduction, const std::vector<BlockSpec>& blocks) {
  Json config = spec.config;
  const StackSpec& s = spec.main();
  const auto layers = static_cast<int64_t>(reduction.layers.size());
  if (layers != s.layers()) {
    keep_layers(config, reduction.layers, s.layers());
    set_fields(config, kLayerFields, s.layers(), layers);
    write_attention_types(config, blocks);
  }
  if (const int64_t groups = kept_count(reduction.groups); groups > 0) {
    const AttentionSpec& a = first_with_attention(s)->attention;
    set_fields(config, kHeadFields, a.heads, groups * (a.heads / a.kv_heads));
    set_fields(config, kGroupFields, a.kv_heads, groups);
    if (std::find(std::begin(kHeadSizeFromWidth), std::end(kHeadSizeFromWidth), spec.family) ==
        std::end(kHeadSizeFromWidth))
      config["head_dim"] = a.head_dim;
  }
  if (const int64_t width = kept_count(reduction.channels); width > 0) {
    // LFM2 computes its width from intermediate_size, unless this is false.
    if (spec.family == "lfm2" && config.value("block_auto_adjust_ff_dim", Json(true)) != Json(false)) {
      config["block_auto_adjust_ff_dim"] = false;
      for (const char* field : {"intermediate_size", "block_ff_dim"})
        if (config.contains(field)) config[field] = width;
    }
    set_fields(config, kChannelFields, first_with_feed_forward(s)->feed_forward.width, width);
    for (const char* field : kChannelFields)
      if (config.contains(field) && config[field].is_null()) config[field] = width;
  }
  return config;
}

std::string attention_difference(const AttentionSpec& a, const AttentionSpec& b) {
  if (a.heads != b.heads || a.kv_heads != b.kv_heads || a.head_dim != b.head_dim)
    return fmt::format("{} heads of size {} instead of {} of size {}", a.heads, a.head_dim, b.heads,
                       b.head_dim);
  const auto window = [](const AttentionSpec& x) {
    return x.window > 0 ? fmt::format("a window of {} tokens", x.window) : "no window";
  };
  if (a.window != b.window) return fmt::format("{} instead of {}", window(a), window(b));
  if (a.rope.has_value() != b.rope.has_value())
    return a.rope ? "rotary positions instead of none" : "no positions instead of rotary ones";
  if (a.rope != b.rope) return "rotary positions with other frequencies";
  if (a.scale != b.scale) return fmt::format("scores scaled by {} instead of {}", a.scale, b.scale);
  const bool same = a.causal == b.causal && a.soft_cap == b.soft_cap && a.qkv_bias == b.qkv_bias &&
                    a.out_bias == b.out_bias && a.qk_norm == b.qk_norm && a.clip == b.clip &&
                    a.sink_logits == b.sink_logits && a.bias == b.bias &&
                    a.latent.has_value() == b.latent.has_value() &&
                    a.relative.has_value() == b.relative.has_value();
  return same ? "" : "another kind of attention";
}

std::string feed_forward_difference(const FeedForwardSpec& a, const FeedForwardSpec& b) {
  if (a.experts != b.experts || a.shared_width != b.shared_width)
    return fmt::format("{} experts instead of {}", a.experts, b.experts);
  if (a.width != b.width) return fmt::format("{} feed-forward channels instead of {}", a.width, b.width);
  return a.activation == b.activation && a.gated == b.gated && a.bias == b.bias
             ? ""
             : "another kind of feed-forward";
}

bool same(const std::optional<RecurrentSpec>& a, const std::optional<RecurrentSpec>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->cell == b->cell && a->hidden == b->hidden && a->bidirectional == b->bidirectional &&
         a->separate == b->separate && a->residual == b->residual && a->reads_source == b->reads_source;
}

// What block `a` has instead of block `b`; "" if they are the same.
std::string difference(const BlockSpec& a, const BlockSpec& b) {
  if (a.mixer.has_value() != b.mixer.has_value() || !same(a.recurrent, b.recurrent) ||
      a.alignment.has_value() != b.alignment.has_value() || has_attention(a) != has_attention(b) ||
      (a.mixer && (a.mixer->kind != b.mixer->kind || a.mixer->inner != b.mixer->inner ||
                   a.mixer->states != b.mixer->states || a.mixer->heads != b.mixer->heads)))
    return "another kind of layer";
  if (a.norm_position != b.norm_position || a.attention_norm != b.attention_norm ||
      a.parallel != b.parallel || a.residual_scale != b.residual_scale)
    return "other norms or residuals";
  if (has_attention(b))
    if (std::string out = attention_difference(a.attention, b.attention); !out.empty()) return out;
  return feed_forward_difference(a.feed_forward, b.feed_forward);
}

std::string difference(const StackSpec& a, int64_t width, const std::vector<BlockSpec>& blocks) {
  if (a.width != width) return fmt::format("a width of {} instead of {}", a.width, width);
  if (a.blocks.size() != blocks.size())
    return fmt::format("{} layers instead of {}", a.blocks.size(), blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i)
    if (const std::string found = difference(a.blocks[i], blocks[i]); !found.empty())
      return fmt::format("layer {} would have {}", i + 1, found);
  return "";
}

}  // namespace

int64_t kept_count(const std::vector<std::vector<int64_t>>& lists) {
  for (const auto& list : lists)
    if (!list.empty()) return static_cast<int64_t>(list.size());
  return 0;
}

Result<LoadedModel> reduced_model(const ModelSpec& spec, const Reduction& reduction,
                                  const std::string& place) {
  const std::vector<BlockSpec> blocks = reduced_blocks(spec.main(), reduction);
  Json config = reduced_config(spec, reduction, blocks);
  std::string reason;
  for (const bool with_kinds : {false, true}) {
    if (with_kinds) write_layer_kinds(config, spec.family, blocks);
    auto made = make_model(Config(config, place));
    const std::string found =
        made.ok() ? difference(made->model->spec().main(), spec.main().width, blocks) : made.error().message;
    if (found.empty()) return made;
    if (reason.empty()) reason = found;
  }
  return error_of(Error::Kind::kUnsupported, place,
                  "the config of a {} cannot express this reduction: {}; choose other parts",
                  spec.architecture, reason);
}

}  // namespace makar
