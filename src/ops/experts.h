// Mixtures of experts: the choice of experts, and without gradients, products with the weights of each row's
// experts that the host does not have to wait for.
#pragma once
#include <span>
#include <vector>

#include "ops/context.h"

namespace makar::ops {

struct RoutingOptions {
  int64_t per_row = 1;
  int64_t groups = 1, groups_per_row = 1;  // experts are chosen from the best groups
  bool best_two = false;   // a group's score is the sum of its best two probabilities, not its best one
  bool normalized = true;  // weights are divided by their sum
  float scale = 1.0f;      // multiplies the weights
};

// The experts of each row of probabilities [rows, experts], best first, in host memory: [rows * per_row].
// `correction` [experts] or undefined: added to choose. No gradient.
std::vector<int64_t> choose_experts(Context& ctx, const Tensor& probabilities, const Tensor& correction,
                                    const RoutingOptions& options);

// The experts of each row with their weights, and the places of the rows by expert (kernels::ExpertTiles).
struct Routing {
  int64_t rows, experts, per_row;
  Tensor choices, weights, places;  // [rows, per_row]: i32, f32, i32
  Tensor tile_experts, tile_rows;   // i32: [tiles], [tiles * rows per tile]
  int64_t all_places() const { return tile_rows.count(); }
};
Routing route(Context& ctx, const Tensor& probabilities, const Tensor& correction,
              const RoutingOptions& options);

// One layer of all experts: weights [experts] of one shape from Device::pack_together(), and their biases or
// none.
struct ExpertLayer {
  std::vector<const kernels::PackedWeight*> weights;
  std::vector<Tensor> biases;
};
// Each layer's results by place, [places, n], for x by row or, unless `gathered`, by place; bit for bit as
// linears() of the rows of an expert. The values at places without a row are not defined.
std::vector<Tensor> expert_linears(Context& ctx, const Tensor& x, bool gathered, const Routing& routing,
                                   std::span<const ExpertLayer> layers);
// For each row, 0 + the sum of weight * x over its experts, in the order of their indices: [rows, width] in
// f32.
Tensor add_experts(Context& ctx, const Tensor& x, const Routing& routing);

}  // namespace makar::ops
