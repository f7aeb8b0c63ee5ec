#include "quant/choose_kept_parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/calibrate.h"

namespace makar {
namespace {

// The indices of the `count` largest scores, ascending; of equal scores, the lower index is taken.
std::vector<int64_t> largest(const std::vector<double>& scores, int64_t count) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

void add_row_squares(const Parameter* p, std::vector<double>& to) {
  if (!p) return;
  const Tensor w = p->value.host();
  const int64_t n = w.dim(1);
  for (size_t r = 0; r < to.size(); ++r)
    for (int64_t i = 0; i < n; ++i)
      to[r] += std::pow(static_cast<double>(w.f32()[static_cast<int64_t>(r) * n + i]), 2.0);
}

// Squares per column, times the mean square of the column's input if there is a calibration.
std::vector<double> column_squares(const Parameter& p, const Calibration* inputs) {
  const Tensor w = p.value.host();
  const int64_t n = w.dim(1);
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < w.count(); ++i)
    out[static_cast<size_t>(i % n)] += std::pow(static_cast<double>(w.f32()[i]), 2.0);
  if (!inputs) return out;
  const auto mean_squares = inputs->importance.find(p.name);
  for (size_t i = 0; mean_squares != inputs->importance.end() && i < out.size(); ++i)
    out[i] *= static_cast<double>(mean_squares->second[i]);
  return out;
}

// Sums of groups of `size` consecutive values.
std::vector<double> group_sums(const std::vector<double>& x, int64_t size) {
  std::vector<double> out(x.size() / static_cast<size_t>(size));
  for (size_t i = 0; i < x.size(); ++i) out[i / static_cast<size_t>(size)] += x[i];
  return out;
}

// 1 - cosine of a layer's input and output, summed over tokens, per layer. The last layer gets infinity,
// because its recorded output is taken after the final norm.
std::vector<double> direction_changes(const Model& model, const StructuredPruningOptions& options,
                                      Device& device) {
  const int64_t layers = model.spec().main().layers();
  std::vector<double> out(static_cast<size_t>(layers), 0.0);
  const auto size = static_cast<int64_t>(options.ids.size());
  for (int64_t at = 0; at < size; at += options.window) {
    Record record;
    record.hidden = true;
    Context ctx{device};
    ForwardContext f{ctx, nullptr, &record};
    Inputs inputs;
    inputs.source.add({options.ids.begin() + at, options.ids.begin() + std::min(at + options.window, size)});
    model.hidden(f, inputs);
    for (size_t l = 0; l + 1 < out.size(); ++l) {
      const Tensor a = record.hidden_states[l].host(), b = record.hidden_states[l + 1].host();
      for (int64_t r = 0; r < a.dim(0); ++r) {
        double ab = 0, aa = 1e-30, bb = 1e-30;
        for (int64_t i = r * a.dim(1); i < (r + 1) * a.dim(1); ++i) {
          const double x = a.f32()[i], y = b.f32()[i];
          ab += x * y, aa += x * x, bb += y * y;
        }
        out[l] += 1 - ab / std::sqrt(aa * bb);
      }
    }
  }
  out.back() = INFINITY;
  return out;
}

Status check_options(const StackSpec& s, const StructuredPruningOptions& options) {
  const auto range = [](const char* key, int64_t value, int64_t max) -> Status {
    if (value >= 0 && value <= max) return Done{};
    return error_at(key, "expected 1 to the model's {}, got {}", max, value);
  };
  MAKAR_RETURN_IF_ERROR(range("layers", options.layers, s.layers()));
  MAKAR_RETURN_IF_ERROR(range("kv_heads", options.kv_heads, s.first().attention.kv_heads));
  MAKAR_RETURN_IF_ERROR(range("ffn", options.ffn, s.first().feed_forward.width));
  if (options.ffn > 0)
    for (const BlockSpec& b : s.blocks)
      if (b.feed_forward.experts > 0)
        return error_of(Error::Kind::kUnsupported, "ffn", "removing channels of experts is not supported");
  if (options.kv_heads > 0 && s.first().attention.latent)
    return error_of(Error::Kind::kUnsupported, "kv_heads",
                    "removing heads with latent keys is not supported");
  return Done{};
}

}  // namespace

Result<Reduction> choose_kept_parts(const LoadedModel& loaded, const StructuredPruningOptions& options,
                                    Device& device, const std::string& place) {
  const Model& model = *loaded.model;
  const ModelSpec& spec = model.spec();
  if (spec.encoder && spec.decoder)
    return error_of(Error::Kind::kUnsupported, place,
                    "removing parts of an encoder-decoder is not supported");
  const StackSpec& s = spec.main();
  MAKAR_RETURN_IF_ERROR(check_options(s, options));
  Reduction out;
  const int64_t layers = options.layers > 0 ? options.layers : s.layers();
  if (layers == s.layers() || options.ids.empty())
    out.layers = spread_layers(s.layers(), layers);
  else
    out.layers = largest(direction_changes(model, options, device), layers);
  std::optional<Calibration> inputs;
  if (!options.ids.empty() && (options.kv_heads > 0 || options.ffn > 0)) {
    MAKAR_TRY(inputs, calibrate_parameters(model, options.ids, device, {options.window, false}, {}));
  }
  const Calibration* calibration = inputs ? &*inputs : nullptr;
  for (const int64_t layer : out.layers) {
    const auto find = [&](const char* name) {
      return model.parameters().find(fmt::format("{}.layers.{}.{}.weight", s.name, layer, name));
    };
    if (options.ffn > 0) {
      std::vector<double> scores = column_squares(*find("ffn.down"), calibration);
      if (!calibration) add_row_squares(find("ffn.up"), scores), add_row_squares(find("ffn.gate"), scores);
      out.channels.push_back(largest(scores, options.ffn));
    }
    if (options.kv_heads > 0) {
      const AttentionSpec& a = s.first().attention;
      const int64_t query_width = a.heads / a.kv_heads * a.head_dim;
      std::vector<double> columns = column_squares(*find("attn.o"), calibration);
      if (!calibration) add_row_squares(find("attn.q"), columns);
      std::vector<double> scores = group_sums(columns, query_width);
      if (!calibration)
        for (const char* name : {"attn.k", "attn.v"}) {
          std::vector<double> rows(static_cast<size_t>(a.kv_heads * a.head_dim));
          add_row_squares(find(name), rows);
          const auto sums = group_sums(rows, a.head_dim);
          for (size_t g = 0; g < scores.size(); ++g) scores[g] += sums[g];
        }
      out.groups.push_back(largest(scores, options.kv_heads));
    }
  }
  return out;
}

}  // namespace makar
