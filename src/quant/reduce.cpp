#include "quant/reduce.h"

#include <algorithm>

#include "nn/block_parts.h"
#include "quant/reduced_config.h"

namespace makar {
namespace {

Status check_heads(const AttentionSpec& a, const std::string& place) {
  const bool relative =
      a.relative && (a.relative->kind == RelativeSpec::Kind::kXl || a.relative->own_projections);
  if (a.latent || a.sink_logits || a.bias != BiasKind::kNone || relative || a.qk_norm == QkNorm::kWhole ||
      a.qk_norm == QkNorm::kEachHead || a.qk_norm == QkNorm::kSeparate)
    return error_of(Error::Kind::kUnsupported, place,
                    "removing heads is not supported for this attention (latent keys, sinks, position bias, "
                    "projections of distances or norms over heads); remove channels or layers");
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
  const auto check_lists = [&](const std::vector<std::vector<int64_t>>& lists,
                               bool (*has)(const BlockSpec&)) {
    check(lists.empty() || lists.size() == reduction.layers.size(), "one list per kept layer");
    for (size_t i = 0; i < lists.size(); ++i) {
      const bool expected = has(s.blocks[static_cast<size_t>(reduction.layers[i])]);
      check(static_cast<int64_t>(lists[i].size()) == (expected ? kept_count(lists) : 0) &&
                (!expected || !lists[i].empty()),
            "all layers keep the same number");
    }
  };
  check_lists(reduction.groups, has_attention), check_lists(reduction.channels, has_feed_forward);
  if (s.groups > 0)
    return error_of(Error::Kind::kUnsupported, place,
                    "the layers share their weights; no part of them can be removed");
  for (const BlockSpec& b : s.blocks) {
    if (!reduction.groups.empty() && has_attention(b)) MAKAR_RETURN_IF_ERROR(check_heads(b.attention, place));
    if (!reduction.channels.empty() && b.feed_forward.experts > 0)
      return error_of(Error::Kind::kUnsupported, place, "removing channels of experts is not supported");
  }
  return Done{};
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
  MAKAR_TRY(LoadedModel reduced, reduced_model(spec, reduction, place));
  const std::string prefix = s.name + ".layers.";
  for (const auto& p : reduced.model->parameters().all()) {
    std::string name = p->name, rest;
    size_t layer = 0;
    const BlockSpec* block = nullptr;
    if (name.starts_with(prefix)) {
      const size_t dot = name.find('.', prefix.size());
      layer = std::stoul(name.substr(prefix.size(), dot - prefix.size()));
      rest = name.substr(dot + 1);
      name = fmt::format("{}{}.{}", prefix, reduction.layers[layer], rest);
      block = &s.blocks[static_cast<size_t>(reduction.layers[layer])];
    }
    const Parameter* source = from.model->parameters().find(name);
    if (!source || (!source->value.defined() && !p->optional))
      return error_of(Error::Kind::kUnsupported, place,
                      "the original model has no weight '{}' for '{}' of the reduced model", name, p->name);
    if (!source->value.defined()) continue;
    p->value = block ? kept_part(rest, source->value, block->attention,
                                 reduction.groups.empty() ? nullptr : &reduction.groups[layer],
                                 reduction.channels.empty() ? nullptr : &reduction.channels[layer])
                     : source->value;
    if (p->value.shape() != p->shape)
      return error_of(Error::Kind::kUnsupported, place, "'{}' would be {}, the reduced model needs {}",
                      p->name, p->value.shape().text(), p->shape.text());
  }
  return reduced;
}

}  // namespace makar
