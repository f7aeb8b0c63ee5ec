// Products with quantized weights: activations are quantized once for all products that read them in the same way.
#include "kernels/cuda/quant_product.cuh"

#include <memory>
#include <span>

#include "kernels/cuda/cuda_device.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 24, kMaxColumns = int64_t{1} << 26;

struct Quantized {
  int parts, unit;
  bool mins;
  std::unique_ptr<CudaScratch<std::byte>> rows;
};

bool run_form(cudaStream_t stream, const QuantCall& call, int form, const std::byte* a, std::span<const QuantCall::Product> products) {
  QuantProducts p{};
  p.m = static_cast<int>(call.rows.rows), p.blocks = static_cast<int>((call.rows.k + kQuantBlock - 1) / kQuantBlock);
  p.groups = static_cast<int>(groups_of(call.rows.k)), p.a = a;
  p.ending = call.ending, p.kind = call.kind, p.residual = call.residual, p.sum = call.sum, p.gated = call.gated;
  for (const QuantCall::Product& from : products) {
    const int n = static_cast<int>(from.b->n());
    p.products[p.count++] = {from.b->data(), from.c, from.bias, from.ldc, n, (n + kQuantTileRows - 1) / kQuantTileRows, from.accumulate};
  }
  if (fits_quant_few(p))
    run_quant_few(stream, form, p);
  else if (call.ending != QuantEnding::kGated)
    run_quant_tiled(stream, form, p);
  else
    return false;
  return true;
}

}  // namespace

QuantCall quant_call(const PackedGemm& a) {
  QuantCall call;
  call.rows = {a.a.data, a.a.type, a.a.row_stride, a.a.k_stride, a.m};
  for (int64_t i = 0; i < a.count; ++i) {
    const auto& b = static_cast<const CudaWeight&>(*a.products[i].b);
    const GemmOutput& out = a.products[i].out;
    if (b.form() >= 0 && b.n() > 0) call.rows.k = b.k(), call.products.push_back({&b, out.c, out.bias, out.ldc, out.accumulate});
  }
  return call;
}

bool run_quant(cudaStream_t stream, Memory& memory, const QuantCall& call) {
  check(call.rows.rows <= kMaxRows && call.rows.k <= kMaxColumns, "a product with quantized weights is too large for the GPU");
  const bool together = call.ending == QuantEnding::kGated || call.ending == QuantEnding::kAdd;
  const auto alike = [](const CudaWeight& a, const CudaWeight& b) {
    return a.form() == b.form() && storage_of(a.type()).unit == storage_of(b.type()).unit;
  };
  for (const auto& product : call.products)
    if (together && !alike(*product.b, *call.products[0].b)) return false;
  std::vector<Quantized> quantized;
  const auto rows_for = [&](const CudaWeight& b) -> const std::byte* {
    const CudaForm& f = kCudaForms[b.form()];
    const int parts = kQuantBlock / f.part, unit = storage_of(b.type()).unit;
    for (const Quantized& q : quantized)
      if (q.parts == parts && q.unit == unit && q.mins == f.mins) return q.rows->data();
    QuantRows rows = call.rows;
    rows.parts = parts, rows.unit = unit, rows.mins = f.mins;
    quantized.push_back({parts, unit, f.mins, std::make_unique<CudaScratch<std::byte>>(memory, quantized_bytes(rows))});
    quantize_rows(stream, rows, quantized.back().rows->data());
    return quantized.back().rows->data();
  };
  // Products whose forms and units agree run as one kernel.
  for (size_t i = 0; i < call.products.size();) {
    const CudaWeight& b = *call.products[i].b;
    size_t end = i + 1;
    while (end < call.products.size() && end - i < kMaxQuantProducts && alike(b, *call.products[end].b)) ++end;
    if (!run_form(stream, call, b.form(), rows_for(b), std::span(call.products).subspan(i, end - i))) return false;
    i = end;
  }
  return true;
}

}  // namespace makar::kernels::cuda
