// Routed rows on the CPU, the fence device and a GPU if there is one: the choice of experts, and products of
// all experts at once beside those of each expert alone.
#include "ops/experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "kernels/cpu_device.h"
#include "kernels/quant_blocks.h"
#include "on_each_device.h"
#include "ops/bf16.h"
#include "ops/linear.h"
#include "ops/shape.h"

namespace makar {
namespace {

using kernels::test::random_floats;

class Experts : public test::OnEachDevice {
 protected:
  Tensor floats(const Shape& shape, uint64_t seed) const {
    return Tensor::from(shape, std::span<const float>(random_floats(shape.count(), seed)))
        .to(device_->memory());
  }
  static std::vector<int64_t> integers(const Tensor& t) {
    const Tensor host = t.host();
    const auto* first = reinterpret_cast<const int32_t*>(host.raw());
    return {first, first + host.count()};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Experts, testing::Values("cpu", "fence", "cuda"));

TEST_P(Experts, TheLargestAreChosenTiesByIndexAndNanLast) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor p = Tensor::from({4, 6}, std::vector<float>{0.1f, 0.3f, 0.3f, 0.05f, 0.2f, 0.05f,  //
                                                           0.0f, 0.0f, 0.0f, 0.0f,  0.0f, 0.0f,   //
                                                           kNan, 0.1f, kNan, 0.2f,  kNan, kNan,   //
                                                           kNan, kNan, kNan, kNan,  kNan, kNan})
                       .to(device_->memory());
  Context ctx{*device_};
  EXPECT_EQ(ops::choose_experts(ctx, p, {}, {3}), (std::vector<int64_t>{1, 2, 4, 0, 1, 2, 3, 1, 0, 0, 1, 2}));
  // Corrections choose, and do not weigh.
  const Tensor correction = Tensor::from({6}, std::vector<float>{0, 0, 0, 1, 0, 0.5f}).to(device_->memory());
  const ops::Routing r = ops::route(ctx, p, correction, {2, 1, 1, false, true, 3.0f});
  EXPECT_EQ(integers(r.choices), (std::vector<int64_t>{3, 5, 3, 5, 3, 1, 0, 1}));
  const Tensor weights = r.weights.host();
  EXPECT_EQ(weights.f32()[0], 0.05f / (0.05f + 0.05f) * 3.0f);
  EXPECT_EQ(weights.f32()[4], 0.2f / (0.2f + 0.1f) * 3.0f);
}

TEST_P(Experts, OnlyTheBestGroupsAreChosenFrom) {
  const Tensor p = Tensor::from({1, 8}, std::vector<float>{0.5f, 0.0f, 0.3f, 0.3f, 0.1f, 0.2f, 0.4f, 0.05f})
                       .to(device_->memory());
  Context ctx{*device_};
  EXPECT_EQ(ops::choose_experts(ctx, p, {}, {3, 4, 2}), (std::vector<int64_t>{0, 6, 7}));
  EXPECT_EQ(ops::choose_experts(ctx, p, {}, {3, 4, 2, true}), (std::vector<int64_t>{0, 2, 3}));
}

TEST_P(Experts, PlacesHoldEveryRowOnceByExpert) {
  constexpr int64_t kRows = 150, kExperts = 40, kPerRow = 4;
  Context ctx{*device_};
  const Tensor p = ops::softmax(ctx, floats({kRows, kExperts}, 3));
  const ops::Routing r = ops::route(ctx, p, {}, {kPerRow});
  const auto choices = integers(r.choices), places = integers(r.places), rows = integers(r.tile_rows),
             tiles = integers(r.tile_experts);
  const auto per_tile = static_cast<int64_t>(rows.size() / tiles.size());
  std::vector<int> used(rows.size());
  for (int64_t i = 0; i < kRows * kPerRow; ++i) {
    const auto place = static_cast<size_t>(places[static_cast<size_t>(i)]);
    ASSERT_LT(place, rows.size());
    EXPECT_EQ(rows[place], i / kPerRow);
    EXPECT_EQ(tiles[place / static_cast<size_t>(per_tile)], choices[static_cast<size_t>(i)]);
    EXPECT_EQ(++used[place], 1);
  }
  for (size_t i = 0; i < rows.size(); ++i)
    if (!used[i]) EXPECT_EQ(rows[i], -1) << i;
}

struct Products {
  DType type;  // of the weights
  DType activations;
  int64_t rows, experts, per_row, width, inner;
  DType second = type;  // of the second layer
};

TEST_P(Experts, ProductsOfAllAtOnceHaveTheBitsOfEachAlone) {
  std::vector<Products> cases;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K,
                           DType::kQ6_K, DType::kQ5_1})
    for (const int64_t rows : {1, 7, 100}) cases.push_back({type, DType::kF32, rows, 6, 2, 256, 96});
  for (const auto& [rows, width, inner] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 256, 96},
                                                                                             {9, 256, 96},
                                                                                             {100, 256, 160},
                                                                                             {3, 40, 24},
                                                                                             {100, 40, 24},
                                                                                             {5, 37, 19},
                                                                                             {90, 37, 19}})
    cases.push_back({DType::kBF16, DType::kBF16, rows, 6, 2, width, inner});
  cases.push_back({DType::kQ8_0, DType::kBF16, 30, 6, 2, 256, 96});
  cases.push_back({DType::kBF16, DType::kBF16, 40, 1, 1, 64, 32});
  cases.push_back(
      {DType::kQ8_0, DType::kF32, 3, 2, 1, 32768, 16});  // more than a block's shared memory holds
  // Files whose layers differ in type.
  for (const DType activations : {DType::kF32, DType::kBF16}) {
    cases.push_back({DType::kBF16, activations, 9, 6, 2, 256, 96, DType::kQ8_0});
    cases.push_back({DType::kQ4_K, activations, 9, 6, 2, 256, 96, DType::kBF16});
    cases.push_back({DType::kQ4_K, activations, 150, 6, 2, 256, 96, DType::kQ6_K});
  }
  for (const Products& c : cases) {
    SCOPED_TRACE(testing::Message() << name(c.type) << ", " << name(c.activations) << ", " << c.rows
                                    << " rows of " << c.width);
    Context ctx{*device_};
    ctx.activations = c.activations;
    // Two layers, as gate and up.
    std::vector<Tensor> weights, biases;
    std::vector<ops::ExpertLayer> layers(2);
    std::vector<std::shared_ptr<const kernels::PackedWeight>> packed;
    for (size_t l = 0; l < 2; ++l) {
      const DType type = l == 0 ? c.type : c.second;
      std::vector<kernels::Operand> operands;
      for (int64_t e = 0; e < c.experts; ++e) {
        const auto seed = static_cast<uint64_t>(100 * l) + static_cast<uint64_t>(e);
        Tensor w;
        if (is_block(type)) {
          w = Tensor::empty({c.inner, c.width}, type);
          const auto bytes = kernels::test::random_blocks(type, c.inner * c.width, seed);
          std::memcpy(w.raw(), bytes.data(), bytes.size());
          w = w.to(device_->memory());
        } else {
          w = floats({c.inner, c.width}, seed).host().to(type).to(device_->memory());
        }
        weights.push_back(w);
        operands.push_back({address_on(*device_, w), type, c.width, 1});
        if (l == 1) biases.push_back(floats({c.inner}, 500 + seed));
      }
      for (const auto& one : device_->pack_together(operands, c.inner, c.width)) {
        packed.push_back(one), layers[l].weights.push_back(one.get());
      }
    }
    layers[1].biases = biases;

    const Tensor x = floats({c.rows, c.width}, 7);
    const Tensor p = ops::softmax(ctx, floats({c.rows, c.experts}, 8));
    const ops::Routing r = ops::route(ctx, p, {}, {c.per_row});
    const std::vector<Tensor> together = ops::expert_linears(ctx, x, true, r, layers);
    const Tensor sum = ops::add_experts(ctx, together[1], r).host();

    const auto choices = integers(r.choices), places = integers(r.places);
    const Tensor route_weights = r.weights.host();
    std::vector<float> expected(static_cast<size_t>(c.rows * c.inner));
    for (int64_t e = 0; e < c.experts; ++e) {
      std::vector<int64_t> rows, at;
      std::vector<float> scales;
      for (int64_t i = 0; i < c.rows * c.per_row; ++i)
        if (choices[static_cast<size_t>(i)] == e) {
          rows.push_back(i / c.per_row), at.push_back(places[static_cast<size_t>(i)]);
          scales.push_back(route_weights.f32()[i]);
        }
      if (rows.empty()) continue;
      const auto index = static_cast<size_t>(e);
      const ops::PackedLayer alone[] = {{{}, layers[0].weights[index]},
                                        {biases[index], layers[1].weights[index]}};
      const std::vector<Tensor> results = ops::linears(ctx, ops::gather_rows(ctx, x, rows), alone);
      for (size_t l = 0; l < 2; ++l) {
        const Tensor one = results[l].host(), all = together[l].host();
        const size_t bytes = one.bytes() / rows.size();
        for (size_t i = 0; i < rows.size(); ++i)
          ASSERT_EQ(0,
                    std::memcmp(one.raw() + i * bytes, all.raw() + static_cast<size_t>(at[i]) * bytes, bytes))
              << "layer " << l << ", expert " << e << ", row " << rows[i];
      }
      const Tensor values = results[1].host().to(DType::kF32);
      for (size_t i = 0; i < rows.size(); ++i)
        for (int64_t col = 0; col < c.inner; ++col) {
          const float part = scales[i] * values.f32()[static_cast<int64_t>(i) * c.inner + col];
          expected[static_cast<size_t>(rows[i] * c.inner + col)] += part;
        }
    }
    EXPECT_EQ(0, std::memcmp(sum.raw(), expected.data(), sum.bytes()));

    // Rows that are already at their places.
    const Tensor moved =
        ops::expert_linears(ctx, ops::gather_rows(ctx, x, integers(r.tile_rows)), false, r, layers)[0];
    const Tensor a = moved.host(), b = together[0].host();
    const size_t bytes = static_cast<size_t>(a.bytes()) / static_cast<size_t>(r.all_places());
    for (const int64_t place : places)
      ASSERT_EQ(0, std::memcmp(a.raw() + static_cast<size_t>(place) * bytes,
                               b.raw() + static_cast<size_t>(place) * bytes, bytes));
  }
}

}  // namespace
}  // namespace makar
