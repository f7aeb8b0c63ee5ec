#include "quant/reduce.h"

#include <algorithm>
#include <numeric>

namespace makar {
namespace {

// The config fields for the same number in different families.
constexpr const char* kLayerFields[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
constexpr const char* kHeadFields[] = {"num_attention_heads", "n_head", "n_heads", "num_heads"};
constexpr const char* kGroupFields[] = {"num_key_value_heads", "num_kv_heads", "n_head_kv"};
constexpr const char* kChannelFields[] = {"intermediate_size", "n_inner", "ffn_dim",
                                          "hidden_dim",        "d_ff",    "ffn_hidden_size"};

void set_fields(Json& config, std::span<const char* const> fields, int64_t before, int64_t after) {
  for (const char* field : fields)
    if (const auto it = config.find(field); it != config.end() && it->is_number_integer() && *it == before)
      *it = after;
}

// Lists with an entry per layer: types of layers, flags.
void keep_entries(Json& config, const std::vector<int64_t>& layers, int64_t before) {
  for (auto& item : config.items()) {
    Json& value = item.value();
    if (!value.is_array() || static_cast<int64_t>(value.size()) != before || item.key() == "architectures" ||
        item.key() == "eos_token_id")
      continue;
    Json entries = Json::array();
    for (const int64_t layer : layers) entries.push_back(value[static_cast<size_t>(layer)]);
    value = entries;
  }
}

Json reduced_config(const ModelSpec& spec, const Reduction& reduction) {
  Json config = spec.config;
  const StackSpec& s = spec.main();
  const AttentionSpec& a = s.first().attention;
  const auto layers = static_cast<int64_t>(reduction.layers.size());
  if (layers != s.layers()) {
    keep_entries(config, reduction.layers, s.layers());
    set_fields(config, kLayerFields, s.layers(), layers);
  }
  if (!reduction.groups.empty()) {
    const auto groups = static_cast<int64_t>(reduction.groups[0].size());
    set_fields(config, kHeadFields, a.heads, groups * (a.heads / a.kv_heads));
    set_fields(config, kGroupFields, a.kv_heads, groups);
    config["head_dim"] = a.head_dim;
  }
  if (!reduction.channels.empty()) {
    const auto width = static_cast<int64_t>(reduction.channels[0].size());
    set_fields(config, kChannelFields, s.first().feed_forward.width, width);
    if (config.contains("n_inner") && config["n_inner"].is_null()) config["n_inner"] = width;
  }
  return config;
}

Status check_heads(const AttentionSpec& a, const std::string& place) {
  if (a.latent || a.sink_logits || a.bias != BiasKind::kNone || a.qk_norm == QkNorm::kWhole ||
      a.qk_norm == QkNorm::kEachHead || a.qk_norm == QkNorm::kSeparate)
    return error_of(Error::Kind::kUnsupported, place,
                    "removing heads is not supported for this attention (latent keys, sinks, position bias "
                    "or norms over heads); remove channels or layers");
  return Done{};
}

// The indices of all elements of the kept groups, where a group is `size` consecutive elements.
std::vector<int64_t> elements_of(const std::vector<int64_t>& groups, int64_t size) {
  std::vector<int64_t> out;
  for (const int64_t k : groups)
    for (int64_t i = 0; i < size; ++i) out.push_back(k * size + i);
  return out;
}

Tensor kept_rows(const Tensor& x, const std::vector<int64_t>& rows) {
  const int64_t n = x.count() / x.dim(0);
  Shape shape = x.rank() == 1 ? Shape{static_cast<int64_t>(rows.size())}
                              : Shape{static_cast<int64_t>(rows.size()), x.dim(1)};
  Tensor out = Tensor::empty(shape);
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(x.f32() + rows[i] * n, n, out.f32() + static_cast<int64_t>(i) * n);
  return out;
}

Tensor kept_columns(const Tensor& x, const std::vector<int64_t>& columns) {
  const auto n = static_cast<int64_t>(columns.size());
  Tensor out = Tensor::empty({x.dim(0), n});
  for (int64_t r = 0; r < x.dim(0); ++r)
    for (int64_t c = 0; c < n; ++c)
      out.f32()[r * n + c] = x.f32()[r * x.dim(1) + columns[static_cast<size_t>(c)]];
  return out;
}

// The part of a layer's tensor that is kept. `name`: after "layers.N.".
Tensor kept_part(const std::string& name, const Tensor& x, const AttentionSpec& a,
                 const std::vector<int64_t>* groups, const std::vector<int64_t>* channels) {
  const auto starts = [&](const char* prefix) { return name.starts_with(prefix); };
  if (groups) {
    const int64_t query = a.heads / a.kv_heads * a.head_dim;
    if (starts("attn.q.")) return kept_rows(x, elements_of(*groups, query));
    if (starts("attn.k.") || starts("attn.v.")) return kept_rows(x, elements_of(*groups, a.head_dim));
    if (name == "attn.o.weight") return kept_columns(x, elements_of(*groups, query));
  }
  if (channels) {
    if (starts("ffn.up.") || starts("ffn.gate.")) return kept_rows(x, *channels);
    if (name == "ffn.down.weight") return kept_columns(x, *channels);
  }
  return x;
}

Status check_reduction(const StackSpec& s, const Reduction& reduction, const std::string& place) {
  check(!reduction.layers.empty() && std::is_sorted(reduction.layers.begin(), reduction.layers.end()) &&
            reduction.layers.back() < s.layers(),
        "layers are kept in order");
  for (const auto* lists : {&reduction.groups, &reduction.channels})
    for (const auto& list : *lists)
      check(lists->size() == reduction.layers.size() && !list.empty() && list.size() == lists->front().size(),
            "all layers keep the same number");
  if (s.groups > 0)
    return error_of(Error::Kind::kUnsupported, place,
                    "the layers share their weights; no part of them can be removed");
  for (const BlockSpec& b : s.blocks) {
    if (!reduction.groups.empty()) MAKAR_RETURN_IF_ERROR(check_heads(b.attention, place));
    if (!reduction.channels.empty() && b.feed_forward.experts > 0)
      return error_of(Error::Kind::kUnsupported, place, "removing channels of experts is not supported");
  }
  return Done{};
}

// Whether `reduced`, the spec read back from the new config, has the reduced sizes.
bool config_expresses(const StackSpec& reduced, const StackSpec& before, const Reduction& reduction) {
  if (reduced.layers() != static_cast<int64_t>(reduction.layers.size()) || reduced.width != before.width)
    return false;
  for (size_t i = 0; i < reduction.layers.size(); ++i) {
    const BlockSpec &a = reduced.blocks[i], &b = before.blocks[static_cast<size_t>(reduction.layers[i])];
    const int64_t groups =
        reduction.groups.empty() ? b.attention.kv_heads : static_cast<int64_t>(reduction.groups[i].size());
    const int64_t channels = reduction.channels.empty() ? b.feed_forward.width
                                                        : static_cast<int64_t>(reduction.channels[i].size());
    if (a.attention.kv_heads != groups || a.attention.head_dim != b.attention.head_dim ||
        a.attention.heads != groups * (b.attention.heads / b.attention.kv_heads) ||
        a.attention.window != b.attention.window || a.feed_forward.width != channels ||
        a.feed_forward.experts != b.feed_forward.experts)
      return false;
  }
  return true;
}

}  // namespace

std::vector<int64_t> spread_layers(int64_t layers, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(count == 1 ? 0 : (i * (layers - 1) + (count - 1) / 2) / (count - 1));
  return out;
}

Result<LoadedModel> reduce_model(const LoadedModel& from, const Reduction& reduction,
                                 const std::string& place) {
  const ModelSpec& spec = from.model->spec();
  if (spec.encoder && spec.decoder)
    return error_of(Error::Kind::kUnsupported, place, "reducing an encoder-decoder is not supported");
  const StackSpec& s = spec.main();
  MAKAR_RETURN_IF_ERROR(check_reduction(s, reduction, place));
  auto reduced = make_model(Config(reduced_config(spec, reduction), place));
  if (!reduced.ok() || !config_expresses(reduced->model->spec().main(), s, reduction))
    return error_of(Error::Kind::kUnsupported, place,
                    "the config of a {} cannot express this reduction{}; choose other parts",
                    spec.architecture, reduced.ok() ? "" : " (" + reduced.error().message + ")");
  const std::string prefix = s.name + ".layers.";
  for (const auto& p : reduced->model->parameters().all()) {
    std::string name = p->name, rest;
    size_t layer = 0;
    if (name.starts_with(prefix)) {
      const size_t dot = name.find('.', prefix.size());
      layer = std::stoul(name.substr(prefix.size(), dot - prefix.size()));
      rest = name.substr(dot + 1);
      name = fmt::format("{}{}.{}", prefix, reduction.layers[layer], rest);
    }
    const Parameter* source = from.model->parameters().find(name);
    if (!source || (!source->value.defined() && !p->optional))
      return error_of(Error::Kind::kUnsupported, place,
                      "the original model has no weight '{}' for '{}' of the reduced model", name, p->name);
    if (!source->value.defined()) continue;
    p->value = rest.empty() ? source->value
                            : kept_part(rest, source->value, s.first().attention,
                                        reduction.groups.empty() ? nullptr : &reduction.groups[layer],
                                        reduction.channels.empty() ? nullptr : &reduction.channels[layer]);
    if (p->value.shape() != p->shape)
      return error_of(Error::Kind::kUnsupported, place, "'{}' would be {}, the reduced model needs {}",
                      p->name, p->value.shape().text(), p->shape.text());
  }
  return reduced;
}

}  // namespace makar
