#include "quant/prune.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "quant/calibrate.h"
#include "quant/gptq.h"

namespace makar {
namespace {

constexpr std::pair<const char*, PruneMethod> kMethods[] = {{"magnitude", PruneMethod::kMagnitude},
                                                            {"wanda", PruneMethod::kWanda},
                                                            {"sparsegpt", PruneMethod::kSparseGpt}};
constexpr int64_t kChosenAtOnce = 128;  // columns for which SparseGPT chooses zeros at once

// Marks the `count` smallest of n scores; of equal ones, the first.
void mark_smallest(const float* scores, int64_t n, int64_t count, std::vector<int64_t>& order,
                   uint8_t* zero) {
  std::fill_n(zero, n, uint8_t{0});
  if (count <= 0) return;
  order.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
  const auto less = [&](int64_t a, int64_t b) {
    return scores[a] != scores[b] ? scores[a] < scores[b] : a < b;
  };
  if (count < n) std::nth_element(order.begin(), order.begin() + count, order.end(), less);
  for (int64_t i = 0; i < std::min(count, n); ++i) zero[order[static_cast<size_t>(i)]] = 1;
}

int64_t share_of(double share, int64_t n) { return std::llround(share * static_cast<double>(n)); }

// The matrices of the blocks, in the order of the layers: [layer] -> parameters.
std::vector<std::vector<Parameter*>> block_matrices(Model& model) {
  std::vector<std::vector<Parameter*>> out;
  std::set<const Parameter*> seen;
  model.each_linear([&](const std::string& name, Linear& linear) {
    const size_t at = name.find(".layers.");
    if (at == std::string::npos || name.ends_with(".router") || !seen.insert(linear.weight()).second) return;
    const auto layer = static_cast<size_t>(std::strtoul(name.c_str() + at + 8, nullptr, 10));
    // The layers of an encoder come before those of a decoder.
    const size_t first = name.starts_with("decoder.") && model.encoder()
                             ? static_cast<size_t>(model.spec().encoder->layers())
                             : 0;
    if (out.size() <= first + layer) out.resize(first + layer + 1);
    out[first + layer].push_back(linear.weight());
  });
  return out;
}

}  // namespace

std::optional<PruneMethod> prune_method_named(const std::string& name) {
  for (const auto& [known, method] : kMethods)
    if (name == known) return method;
  return std::nullopt;
}

std::vector<std::string> prune_method_names() {
  std::vector<std::string> out;
  for (const auto& row : kMethods) out.emplace_back(row.first);
  return out;
}

Result<SparsityPattern> parse_pattern(const std::string& text, const std::string& place) {
  SparsityPattern out;
  const size_t colon = text.find(':');
  const auto read = [](std::string_view part, int64_t& to) {
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), to);
    return code == std::errc() && end == part.data() + part.size();
  };
  const std::string_view view = text;
  if (colon == std::string::npos || !read(view.substr(0, colon), out.zeros) ||
      !read(view.substr(colon + 1), out.group) || out.zeros < 1 || out.zeros >= out.group || out.group > 64)
    return error_at(place, "expected ZEROS:GROUP such as 2:4 (2 of 4 weights are zero), got '{}'", text);
  out.share = static_cast<double>(out.zeros) / static_cast<double>(out.group);
  return out;
}

void zero_smallest(ThreadPool& pool, Tensor& w, const std::vector<float>& scale, const SparsityPattern& p,
                   bool rowwise) {
  const int64_t columns = w.dim(1), rows = w.dim(0);
  if (!rowwise && p.group == 0) {  // one choice for the matrix
    std::vector<float> scores(static_cast<size_t>(w.count()));
    for (int64_t i = 0; i < w.count(); ++i)
      scores[static_cast<size_t>(i)] = std::fabs(w.f32()[i]) * scale[static_cast<size_t>(i % columns)];
    std::vector<int64_t> order;
    std::vector<uint8_t> zero(scores.size());
    mark_smallest(scores.data(), w.count(), share_of(p.share, w.count()), order, zero.data());
    for (int64_t i = 0; i < w.count(); ++i)
      if (zero[static_cast<size_t>(i)]) w.f32()[i] = 0;
    return;
  }
  const int64_t step = p.group > 0 ? p.group : columns;
  pool.for_ranges(rows, 8, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(step));
    std::vector<int64_t> order;
    std::vector<uint8_t> zero(static_cast<size_t>(step));
    for (int64_t r = begin; r < end; ++r)
      for (int64_t at = 0; at < columns; at += step) {
        const int64_t n = std::min(step, columns - at);
        float* row = w.f32() + r * columns + at;
        for (int64_t i = 0; i < n; ++i)
          scores[static_cast<size_t>(i)] = std::fabs(row[i]) * scale[static_cast<size_t>(at + i)];
        mark_smallest(scores.data(), n, p.group > 0 ? (n * p.zeros) / p.group : share_of(p.share, n), order,
                      zero.data());
        for (int64_t i = 0; i < n; ++i)
          if (zero[static_cast<size_t>(i)]) row[i] = 0;
      }
  });
}

// With H = M M^T, M upper triangular, the factor of H^-1 is U = M^-1. Setting the current weight k to zero
// costs (w_k / U_kk)^2 = (w_k M_kk)^2, and the best compensation subtracts w_k U_kj / U_kk from the columns
// j > k. The rows U_k / U_kk are the rows of the inverse of M with columns divided by their pivots.
void prune_compensated(ThreadPool& pool, Tensor& w, const Tensor& h, const SparsityPattern& p) {
  const int64_t n = w.dim(1), rows = w.dim(0);
  check(h.dim(0) == n && h.dim(1) == n, "prune_compensated: x^T x must have the width of w");
  std::vector<double> pivots;
  const Tensor unit = feedback_of(pool, h, &pivots);  // M[i,k] / M[k,k] above the diagonal
  Tensor inverse = Tensor::zeros({n, n});
  pool.for_ranges(n, 8, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      float* x = inverse.f32() + k * n;
      x[k] = 1;
      for (int64_t i = k; i < n; ++i) {
        const float factor = x[i], *row = unit.f32() + i * n;
        if (factor == 0) continue;
        for (int64_t j = i + 1; j < n; ++j) x[j] -= factor * row[j];
      }
    }
  });
  const int64_t step = p.group > 0 ? p.group : kChosenAtOnce;
  pool.for_ranges(rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> cost(static_cast<size_t>(step));
    std::vector<int64_t> order;
    std::vector<uint8_t> zero(static_cast<size_t>(step));
    for (int64_t r = begin; r < end; ++r) {
      float* row = w.f32() + r * n;
      for (int64_t at = 0; at < n; at += step) {
        const int64_t count = std::min(step, n - at);
        for (int64_t i = 0; i < count; ++i) {
          const double loss = static_cast<double>(row[at + i]) * pivots[static_cast<size_t>(at + i)];
          cost[static_cast<size_t>(i)] = static_cast<float>(loss * loss);
        }
        mark_smallest(cost.data(), count,
                      p.group > 0 ? (count * p.zeros) / p.group : share_of(p.share, count), order,
                      zero.data());
        for (int64_t i = 0; i < count; ++i) {
          if (!zero[static_cast<size_t>(i)]) continue;
          const float removed = row[at + i], *effect = inverse.f32() + (at + i) * n;
          row[at + i] = 0;
          for (int64_t j = at + i + 1; j < n; ++j) row[j] -= removed * effect[j];
          // This may change weights marked later in the block; they are set to zero when reached.
        }
      }
    }
  });
}

Status prune_model(const LoadedModel& loaded, const PruneOptions& o, Device& device, ThreadPool& pool) {
  Model& model = *loaded.model;
  const auto layers = block_matrices(model);
  const auto total = static_cast<int64_t>(layers.size());
  Calibration inputs;
  if (o.method == PruneMethod::kWanda) {
    MAKAR_TRY(inputs, calibrate_parameters(model, o.ids, device, {o.window, false}, {}));
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (o.method == PruneMethod::kSparseGpt) {
      MAKAR_TRY(inputs, calibrate_parameters(model, o.ids, device, {o.window, true}, layers[i]));
    }
    for (Parameter* p : layers[i]) {
      Tensor w = p->value.host();
      const auto importance = inputs.importance.find(p->name);
      if (o.method == PruneMethod::kMagnitude || importance == inputs.importance.end()) {
        // An expert that the sample text never reached has no inputs: its weights are ranked by magnitude.
        zero_smallest(pool, w, std::vector<float>(static_cast<size_t>(w.dim(1)), 1.0f), o.pattern,
                      o.method != PruneMethod::kMagnitude);
      } else if (o.method == PruneMethod::kWanda) {
        std::vector<float> scale;
        for (const float square : importance->second) scale.push_back(std::sqrt(square));
        zero_smallest(pool, w, scale, o.pattern, true);
      } else {
        prune_compensated(pool, w, inputs.gram.at(p->name), o.pattern);
      }
      p->value = w.to(p->value.memory());
    }
    o.progress(static_cast<int64_t>(i) + 1, total);
  }
  return Done{};
}

double sparsity_of(const Model& model) {
  double zeros = 0, all = 0;
  for (const auto& p : model.parameters().all()) {
    if (p->name.find(".layers.") == std::string::npos || p->shape.rank() != 2 ||
        p->value.dtype() != DType::kF32)
      continue;
    const Tensor host = p->value.host();
    for (const float v : host.span()) zeros += v == 0;
    all += static_cast<double>(host.count());
  }
  return all > 0 ? zeros / all : 0;
}

}  // namespace makar
