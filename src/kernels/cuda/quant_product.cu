// Products with quantized weights: activations are quantized once for all products that read them in the same way.
#include "kernels/cuda/quant_product.cuh"

#include <algorithm>
#include <memory>
#include <span>

#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/expert_products.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 24, kMaxColumns = int64_t{1} << 26, kMaxWeightRows = int64_t{1} << 22;

struct Quantized {
  int parts, unit;
  bool mins;
  std::unique_ptr<CudaScratch<std::byte>> rows;
};

// Whether two products read activations in the same way and run in one kernel.
bool alike(const CudaWeight& a, const CudaWeight& b) {
  return a.form() == b.form() && storage_of(a.type()).unit == storage_of(b.type()).unit;
}

QuantProducts arguments(const QuantCall& call, QuantEnding ending, const std::byte* a, std::span<const QuantCall::Product> products) {
  QuantProducts p{};
  p.m = static_cast<int>(call.rows.rows), p.row_tiles = 1;
  if (call.tiles) p.experts = call.tiles->experts, p.row_tiles = static_cast<int>(call.tiles->count);
  if (call.tiles && call.tiles->rows_per_tile == kFewPlaces) p.m = kFewPlaces;
  p.blocks = static_cast<int>((call.rows.k + kQuantBlock - 1) / kQuantBlock);
  p.groups = static_cast<int>(groups_of(call.rows.k)), p.a = a;
  p.ending = ending, p.kind = call.kind, p.residual = call.residual, p.sum = call.sum, p.gated = call.gated;
  for (const QuantCall::Product& from : products) {
    const int n = static_cast<int>(from.b->n());
    p.products[p.count++] = {from.b->data(), from.c, from.bias, from.ldc, n, (n + kQuantTileRows - 1) / kQuantTileRows, from.accumulate,
                               from.expert_bytes, from.biases};
  }
  return p;
}

}  // namespace

QuantCall quant_call(const PackedGemm& a) {
  QuantCall call;
  call.rows.x = a.a.data, call.rows.type = a.a.type, call.rows.rows = a.m;
  call.rows.row_stride = a.a.row_stride, call.rows.k_stride = a.a.k_stride;
  for (int64_t i = 0; i < a.count; ++i) {
    const auto& b = static_cast<const CudaWeight&>(*a.products[i].b);
    const GemmOutput& out = a.products[i].out;
    if (b.form() >= 0 && b.n() > 0) call.rows.k = b.k(), call.products.push_back({&b, out.c, out.bias, out.ldc, out.accumulate});
  }
  return call;
}

bool gates(const QuantCall& call) {
  return call.products.size() == 2 && alike(*call.products[0].b, *call.products[1].b) &&
         fits_quant_few(arguments(call, QuantEnding::kGated, nullptr, call.products));
}

void run_quant(cudaStream_t stream, Memory& memory, const QuantCall& call) {
  check(call.rows.rows <= kMaxRows && call.rows.k <= kMaxColumns &&
            std::all_of(call.products.begin(), call.products.end(), [](const auto& p) { return p.b->n() <= kMaxWeightRows; }),
        "a product with quantized weights is too large for the GPU");
  std::vector<Quantized> quantized;
  const auto rows_for = [&](const CudaWeight& b) -> const std::byte* {
    const CudaForm& f = kCudaForms[b.form()];
    const int parts = parts_of(f), unit = storage_of(b.type()).unit;
    for (const Quantized& q : quantized)
      if (q.parts == parts && q.unit == unit && q.mins == f.mins) return q.rows->data();
    QuantRows rows = call.rows;
    rows.parts = parts, rows.unit = unit, rows.mins = f.mins;
    quantized.push_back({parts, unit, f.mins, std::make_unique<CudaScratch<std::byte>>(memory, quantized_bytes(rows))});
    quantize_rows(stream, rows, quantized.back().rows->data());
    return quantized.back().rows->data();
  };
  for (size_t i = 0; i < call.products.size();) {
    const CudaWeight& b = *call.products[i].b;
    size_t end = i + 1;
    while (end < call.products.size() && end - i < kMaxQuantProducts && alike(b, *call.products[end].b)) ++end;
    QuantProducts p = arguments(call, call.ending, rows_for(b), std::span(call.products).subspan(i, end - i));
    fits_quant_few(p) ? run_quant_few(stream, b.form(), p) : run_quant_tiled(stream, b.form(), p);
    i = end;
  }
}

void run_routed_quant(cudaStream_t stream, Memory& memory, const ExpertProducts& a) {
  const int64_t k = a.products[0].weights[0]->k();
  QuantCall call;
  call.tiles = &a.tiles;
  call.rows.x = a.x, call.rows.type = a.type, call.rows.row_stride = k, call.rows.k_stride = 1;
  call.rows.rows = a.tiles.places(), call.rows.k = k, call.rows.index = a.gathered ? a.tiles.rows : nullptr;
  for (int64_t i = 0; i < a.count; ++i) {
    const CudaExperts w(a.products[i], a.experts);
    if (w.first->n() > 0)
      call.products.push_back({w.first, static_cast<float*>(a.products[i].y), nullptr, w.first->n(), false, w.step, a.products[i].biases});
  }
  run_quant(stream, memory, call);
}

}  // namespace makar::kernels::cuda
