#include "ops/experts.h"

#include <algorithm>

#include "ops/bf16.h"

namespace makar::ops {
namespace {

int32_t* i32(Context& ctx, const Tensor& t) { return reinterpret_cast<int32_t*>(ctx.address(t)); }

kernels::RouteRows arguments(Context& ctx, const Tensor& probabilities, const Tensor& correction,
                             const RoutingOptions& o) {
  const int64_t rows = probabilities.dim(0), experts = probabilities.dim(1);
  check(o.per_row > 0 && o.per_row <= experts && experts <= kernels::kMaxExperts, "route: experts per row");
  check(o.groups > 0 && experts % o.groups == 0 && o.groups_per_row > 0 && o.groups_per_row <= o.groups,
        "route: groups of experts");
  check(!correction.defined() || correction.count() == experts, "route: one correction per expert");
  kernels::RouteRows a{};
  a.probabilities = ctx.f32(probabilities), a.correction = ctx.f32(correction);
  a.rows = rows, a.experts = experts, a.per_row = o.per_row;
  a.groups = o.groups, a.groups_per_row = o.groups_per_row, a.best_two = o.best_two;
  a.normalized = o.normalized, a.scale = o.scale;
  return a;
}

kernels::ExpertTiles tiles_of(Context& ctx, const Routing& r) {
  const int64_t count = r.tile_experts.count();
  return {count ? r.all_places() / count : 1, count, i32(ctx, r.tile_experts), i32(ctx, r.tile_rows)};
}

}  // namespace

std::vector<int64_t> choose_experts(Context& ctx, const Tensor& probabilities, const Tensor& correction,
                                    const RoutingOptions& options) {
  kernels::RouteRows a = arguments(ctx, probabilities, correction, options);
  const Tensor choices = ctx.empty({a.rows, a.per_row}, DType::kI32);
  a.choices = i32(ctx, choices);
  ctx.device.route_rows(a);
  const Tensor host = choices.host();
  const auto* first = reinterpret_cast<const int32_t*>(host.raw());
  return {first, first + host.count()};
}

Routing route(Context& ctx, const Tensor& probabilities, const Tensor& correction,
              const RoutingOptions& options) {
  kernels::RouteRows a = arguments(ctx, probabilities, correction, options);
  // Tiles that could be needed: every expert that gets rows has at most one that is not full.
  const int64_t routed = a.rows * a.per_row, per_tile = ctx.device.rows_per_tile(routed, a.experts);
  const int64_t tiles = std::min(routed, routed / per_tile + std::min(routed, a.experts));
  const Shape shape{a.rows, a.per_row};
  Routing r{a.rows,
            a.experts,
            a.per_row,
            ctx.empty(shape, DType::kI32),
            ctx.empty(shape),
            ctx.empty(shape, DType::kI32),
            ctx.empty({tiles}, DType::kI32),
            ctx.empty({tiles * per_tile}, DType::kI32)};
  a.choices = i32(ctx, r.choices), a.weights = ctx.f32(r.weights), a.places = i32(ctx, r.places);
  a.tiles = tiles_of(ctx, r);
  ctx.device.route_rows(a);
  return r;
}

std::vector<Tensor> expert_linears(Context& ctx, const Tensor& input, bool gathered, const Routing& r,
                                   std::span<const ExpertLayer> layers) {
  const auto all = [&](DType type) {
    return std::ranges::all_of(layers, [=](const ExpertLayer& l) { return l.weights[0]->type() == type; });
  };
  const bool bf16 = computes_bf16(ctx) && all(DType::kBF16), alike = all(layers[0].weights[0]->type());
  const Tensor x = bf16 ? cast_to_bf16(ctx, input) : any_bf16(ctx, input) ? cast_to_f32(ctx, input) : input;
  check(!ctx.tape && x.rank() == 2 && x.dim(0) == (gathered ? r.rows : r.all_places()),
        "expert_linears: rows or places, without a gradient");
  std::vector<Tensor> out, biases;  // biases: their addresses
  std::vector<kernels::ExpertProduct> products;
  for (const ExpertLayer& layer : layers) {
    const kernels::PackedWeight& w = *layer.weights[0];
    check(static_cast<int64_t>(layer.weights.size()) == r.experts && w.k() == x.dim(1) &&
              (layer.biases.empty() || static_cast<int64_t>(layer.biases.size()) == r.experts),
          "expert_linears: weights of all experts for this width");
    std::vector<int64_t> addresses;
    for (const Tensor& b : layer.biases) {
      check(b.count() == w.n(), "linear: bias and output differ in width");
      addresses.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(ctx.f32(b))));
    }
    biases.push_back(addresses.empty() ? Tensor() : ctx.upload(addresses));
    out.push_back(ctx.empty({r.all_places(), w.n()}, bf16 ? DType::kBF16 : DType::kF32));
    products.push_back({layer.weights.data(),
                        reinterpret_cast<const float* const*>(ctx.address(biases.back())),
                        ctx.address(out.back())});
  }
  const auto count = static_cast<int64_t>(products.size()), step = alike ? count : 1;  // products per call
  for (int64_t i = 0; r.rows > 0 && i < count; i += step)
    ctx.device.expert_products(
        {tiles_of(ctx, r), ctx.address(x), x.dtype(), gathered, r.experts, products.data() + i, step});
  return out;
}

Tensor add_experts(Context& ctx, const Tensor& x, const Routing& r) {
  check(!ctx.tape && x.rank() == 2 && x.dim(0) == r.all_places(), "add_experts: one row per place");
  const Tensor y = ctx.empty({r.rows, x.dim(1)});
  ctx.device.add_experts({ctx.address(x), x.dtype(), i32(ctx, r.choices), i32(ctx, r.places),
                          ctx.f32(r.weights), ctx.f32(y), r.rows, r.per_row, x.dim(1)});
  return y;
}

}  // namespace makar::ops
