#include "quant/choose_kept_parts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/block_parts.h"
#include "quant/calibrate.h"
#include "quant/reduced_config.h"

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

// The states between layers: entry i is the input of layer i, entry i + 1 its output. Entries that the stack
// does not record as such are undefined: the output of the last layer (recorded after the final norm), and
// the input of the first one in stacks that record only outputs (Mamba).
std::vector<Tensor> states_between_layers(const Record& record, const StackSpec& s) {
  const auto layers = static_cast<size_t>(s.layers());
  std::vector<Tensor> out(layers + 1);
  for (size_t i = 0; i < layers; ++i) out[i + (s.record_outputs ? 1 : 0)] = record.hidden_states[i].host();
  return out;
}

// 1 - cosine of a row before and after a layer, summed over rows; infinity if they are not known.
double direction_change(const Tensor& before, const Tensor& after) {
  if (!before.defined() || !after.defined() || before.shape() != after.shape()) return INFINITY;
  double out = 0;
  for (int64_t r = 0; r < before.dim(0); ++r) {
    double ab = 0, aa = 1e-30, bb = 1e-30;
    for (int64_t i = r * before.dim(1); i < (r + 1) * before.dim(1); ++i) {
      const double x = before.f32()[i], y = after.f32()[i];
      ab += x * y, aa += x * x, bb += y * y;
    }
    out += 1 - ab / std::sqrt(aa * bb);
  }
  return out;
}

// The change of direction of each layer on the sample text. A layer whose input or output is not known (see
// above) gets infinity: it is kept.
std::vector<double> direction_changes(const Model& model, const StructuredPruningOptions& options,
                                      Device& device) {
  const StackSpec& s = model.spec().main();
  std::vector<double> out(static_cast<size_t>(s.layers()), 0.0);
  const auto size = static_cast<int64_t>(options.ids.size());
  const int64_t positions = model.spec().max_positions;
  const int64_t window = positions > 0 ? std::min(options.window, positions) : options.window;
  model.parameters().to(device.memory());
  for (int64_t at = 0; at < size; at += window) {
    Record record;
    record.hidden = true;
    Context ctx{device};
    ForwardContext f{ctx, nullptr, &record};
    Inputs inputs;
    inputs.source.add({options.ids.begin() + at, options.ids.begin() + std::min(at + window, size)});
    model.hidden(f, inputs);
    const std::vector<Tensor> states = states_between_layers(record, s);
    for (size_t l = 0; l < out.size(); ++l) out[l] += direction_change(states[l], states[l + 1]);
  }
  out.back() = INFINITY;  // also where its output is known (Mamba)
  return out;
}

// The smallest number of key/value heads, or of channels, that any layer with such a part has.
int64_t fewest(const StackSpec& s, bool (*has)(const BlockSpec&), int64_t (*count)(const BlockSpec&)) {
  int64_t out = 0;
  for (const BlockSpec& b : s.blocks)
    if (has(b)) out = out == 0 ? count(b) : std::min(out, count(b));
  return out;
}

Status check_options(const ModelSpec& spec, const StructuredPruningOptions& options,
                     const std::string& place) {
  const StackSpec& s = spec.main();
  const auto unsupported = [](const std::string& where, const std::string& what) {
    return error_of(Error::Kind::kUnsupported, where, "{}", what);
  };
  if (spec.encoder && spec.decoder)
    return unsupported(place, fmt::format("a {} has two stacks; removing parts of them is not supported",
                                          spec.architecture));
  if (s.groups > 0)
    return unsupported(place, "the layers share their weights; no part of them can be removed");
  const auto range = [](const char* key, int64_t value, int64_t max) -> Status {
    if (value >= 0 && value <= max) return Done{};
    return error_at(key, "expected 1 to the model's {}, got {}", max, value);
  };
  MAKAR_RETURN_IF_ERROR(range("layers", options.layers, s.layers()));
  if (options.kv_heads > 0) {
    const int64_t heads = fewest(s, has_attention, [](const BlockSpec& b) { return b.attention.kv_heads; });
    if (heads == 0)
      return unsupported("kv_heads",
                         fmt::format("a {} has no attention, so it has no heads", spec.architecture));
    MAKAR_RETURN_IF_ERROR(range("kv_heads", options.kv_heads, heads));
    if (first_with_attention(s)->attention.latent)
      return unsupported("kv_heads", "removing heads with latent keys is not supported");
  }
  if (options.ffn > 0) {
    const int64_t width =
        fewest(s, has_feed_forward, [](const BlockSpec& b) { return b.feed_forward.width; });
    if (width == 0)
      return unsupported("ffn", fmt::format("a {} has no feed-forward layers", spec.architecture));
    if (s.routed()) return unsupported("ffn", "removing channels of experts is not supported");
    MAKAR_RETURN_IF_ERROR(range("ffn", options.ffn, width));
  }
  return Done{};
}

// Ranks and chooses the channels and the groups of heads of one layer.
class LayerParts {
 public:
  // `calibration`: null to rank by the weights alone.
  LayerParts(const ParameterSet& parameters, const std::string& prefix, const Calibration* calibration)
      : parameters_(parameters), prefix_(prefix), calibration_(calibration) {}

  std::vector<int64_t> channels(int64_t count) const {
    std::vector<double> scores = column_squares(*find("ffn.down"), calibration_);
    if (!calibration_) add_row_squares(find("ffn.up"), scores), add_row_squares(find("ffn.gate"), scores);
    return largest(scores, count);
  }
  std::vector<int64_t> groups(const AttentionSpec& a, int64_t count) const {
    std::vector<double> columns = column_squares(*find("attn.o"), calibration_);
    if (!calibration_) add_row_squares(find("attn.q"), columns);
    std::vector<double> scores = group_sums(columns, a.heads / a.kv_heads * a.head_dim);
    for (const char* name : {"attn.k", "attn.v"}) {
      if (calibration_) break;
      std::vector<double> rows(static_cast<size_t>(a.kv_heads * a.head_dim));
      add_row_squares(find(name), rows);
      const auto sums = group_sums(rows, a.head_dim);
      for (size_t g = 0; g < scores.size(); ++g) scores[g] += sums[g];
    }
    return largest(scores, count);
  }

 private:
  const Parameter* find(const char* name) const { return parameters_.find(prefix_ + name + ".weight"); }
  const ParameterSet& parameters_;
  std::string prefix_;
  const Calibration* calibration_;
};

}  // namespace

Result<Reduction> choose_kept_parts(const LoadedModel& loaded, const StructuredPruningOptions& options,
                                    Device& device, const std::string& place) {
  const Model& model = *loaded.model;
  MAKAR_RETURN_IF_ERROR(check_options(model.spec(), options, place));
  const StackSpec& s = model.spec().main();
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
  for (const int64_t layer : out.layers) {
    const BlockSpec& b = s.blocks[static_cast<size_t>(layer)];
    const LayerParts parts(model.parameters(), fmt::format("{}.layers.{}.", s.name, layer),
                           inputs ? &*inputs : nullptr);
    if (options.ffn > 0)
      out.channels.push_back(has_feed_forward(b) ? parts.channels(options.ffn) : std::vector<int64_t>());
    if (options.kv_heads > 0)
      out.groups.push_back(has_attention(b) ? parts.groups(b.attention, options.kv_heads)
                                            : std::vector<int64_t>());
  }
  if (options.kv_heads > 0 && kept_count(out.groups) == 0)
    return error_of(Error::Kind::kUnsupported, "kv_heads",
                    "none of the layers that are kept has attention; keep more layers");
  return out;
}

}  // namespace makar
