// Mixtures of experts: the choice of experts, products with the weights of each row's experts, and the sum of
// their results.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cpu/ranges.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

namespace {

// The indices of the k largest values, largest first; ties by index.
std::vector<int32_t> largest(std::span<const float> values, int64_t k) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) {
    const float x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  order.resize(static_cast<size_t>(k));
  return order;
}

void keep_best_groups(std::span<float> scores, const RouteRows& a) {
  const auto size = static_cast<int64_t>(scores.size()) / a.groups;
  const auto group_at = [&](int64_t g) {
    return scores.subspan(static_cast<size_t>(g * size), static_cast<size_t>(size));
  };
  std::vector<float> totals;
  for (int64_t g = 0; g < a.groups; ++g) {
    float total = 0;
    for (const int32_t i : largest(group_at(g), std::min<int64_t>(size, a.best_two ? 2 : 1)))
      total += group_at(g)[static_cast<size_t>(i)];
    totals.push_back(total);
  }
  const std::vector<int32_t> best = largest(totals, a.groups_per_row);
  for (int64_t g = 0; g < a.groups; ++g)
    if (std::find(best.begin(), best.end(), g) == best.end()) std::ranges::fill(group_at(g), 0.0f);
}

void choose(const RouteRows& a, int64_t row) {
  const float* p = a.probabilities + row * a.experts;
  std::vector<float> scores(p, p + a.experts);
  for (int64_t e = 0; e < a.experts; ++e) {
    float& score = scores[static_cast<size_t>(e)];
    if (a.correction) score += a.correction[e];
    if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
  }
  if (a.groups > 1) keep_best_groups(scores, a);
  std::ranges::copy(largest(scores, a.per_row), a.choices + row * a.per_row);
}

void weigh(const RouteRows& a, int64_t row) {
  const int32_t* choices = a.choices + row * a.per_row;
  float* weights = a.weights + row * a.per_row;
  for (int64_t s = 0; s < a.per_row; ++s) weights[s] = a.probabilities[row * a.experts + choices[s]];
  if (a.normalized) {
    float total = weights[0];
    for (int64_t s = 1; s < a.per_row; ++s) total += weights[s];
    for (int64_t s = 0; s < a.per_row; ++s) weights[s] /= total;
  }
  if (a.scale != 1.0f)
    for (int64_t s = 0; s < a.per_row; ++s) weights[s] *= a.scale;
}

void fill_tiles(const RouteRows& a) {
  const ExpertTiles& t = a.tiles;
  std::vector<int64_t> next(static_cast<size_t>(a.experts));  // counts, then each expert's next place
  for (int64_t i = 0; i < a.rows * a.per_row; ++i) ++next[static_cast<size_t>(a.choices[i])];
  std::fill_n(t.experts, t.count, -1), std::fill_n(t.rows, t.places(), -1);
  int64_t tile = 0;
  for (int64_t e = 0; e < a.experts; ++e) {
    int64_t& first = next[static_cast<size_t>(e)];
    const int64_t tiles = (first + t.rows_per_tile - 1) / t.rows_per_tile;
    std::fill_n(t.experts + tile, tiles, static_cast<int32_t>(e));
    first = tile * t.rows_per_tile, tile += tiles;
  }
  for (int64_t i = 0; i < a.rows * a.per_row; ++i) {
    const int64_t place = next[static_cast<size_t>(a.choices[i])]++;
    t.rows[place] = static_cast<int32_t>(i / a.per_row), a.places[i] = static_cast<int32_t>(place);
  }
}

}  // namespace

void CpuDevice::route_rows(const RouteRows& a) {
  pool_->for_ranges(a.rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(a.experts, 1) / 8),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t r = begin; r < end; ++r) {
                        choose(a, r);
                        if (a.weights) weigh(a, r);
                      }
                    });
  if (a.places) fill_tiles(a);
}

void CpuDevice::expert_products(const ExpertProducts& a) {
  const ExpertTiles& t = a.tiles;
  const bool bf16 = a.type == DType::kBF16;
  const auto at = [&](const void* x, int64_t values) {
    return static_cast<const std::byte*>(x) + bytes_of(a.type, values);
  };
  std::vector<PackedProduct> products(static_cast<size_t>(a.count));
  std::vector<PackedProductBf16> products_bf16(static_cast<size_t>(a.count));
  for (int64_t tile = 0, end; tile < t.count; tile = end) {
    const int32_t expert = t.experts[tile];
    for (end = tile + 1; end < t.count && t.experts[end] == expert;) ++end;
    if (expert < 0) continue;
    const int64_t place = tile * t.rows_per_tile, m = (end - tile) * t.rows_per_tile,
                  k = a.products[0].weights[expert]->k();
    const size_t row_bytes = bytes_of(a.type, k);
    const Scratch copy(static_cast<int64_t>(a.gathered ? row_bytes : 0) * m);
    each_rows(*pool_, a.gathered ? m : 0, k, [&](int64_t i0, int64_t i1) {
      for (int64_t i = i0; i < i1; ++i) {
        const int32_t row = t.rows[place + i];
        std::byte* to = copy.get() + static_cast<size_t>(i) * row_bytes;
        row < 0 ? std::memset(to, 0, row_bytes) : std::memcpy(to, at(a.x, row * k), row_bytes);
      }
    });
    const std::byte* x = a.gathered ? copy.get() : at(a.x, place * k);
    for (size_t i = 0; i < products.size(); ++i) {
      const ExpertProduct& p = a.products[i];
      const PackedWeight* w = p.weights[expert];
      const float* bias = p.biases ? p.biases[expert] : nullptr;
      if (bf16)
        products_bf16[i] = {w, static_cast<Bf16*>(p.y) + place * w->n(), bias};
      else
        products[i] = {w, {static_cast<float*>(p.y) + place * w->n(), w->n(), false, bias}};
    }
    if (bf16)
      CpuDevice::gemm_packed_bf16({m, reinterpret_cast<const Bf16*>(x), products_bf16.data(), a.count});
    else
      CpuDevice::gemm_packed({m, {x, DType::kF32, k, 1}, products.data(), a.count});
  }
}

void CpuDevice::add_experts(const AddExperts& a) {
  each_rows(*pool_, a.rows, a.width * a.per_row, [&](int64_t r0, int64_t r1) {
    std::vector<int64_t> slots(static_cast<size_t>(a.per_row));
    for (int64_t r = r0; r < r1; ++r) {
      const int64_t first = r * a.per_row;
      std::iota(slots.begin(), slots.end(), first);
      std::ranges::sort(slots, {}, [&](int64_t s) { return a.choices[s]; });
      float* y = a.y + r * a.width;
      std::fill_n(y, a.width, 0.0f);
      for (const int64_t s : slots) {
        const int64_t from = a.places[s] * a.width;
        const float weight = a.weights[s];
        for (int64_t c = 0; c < a.width; ++c) {
          const float x = a.type == DType::kF32 ? static_cast<const float*>(a.x)[from + c]
                                                : from_bf16(static_cast<const Bf16*>(a.x)[from + c].bits);
          const float part = weight * x;
          y[c] += part;
        }
      }
    }
  });
}

}  // namespace makar
