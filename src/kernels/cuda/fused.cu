// Chooses the kernels of a decoding step: packed products of up to 64 rows with the norm before them and what follows, and
// attention. Other shapes run as separate kernels, which have the same bits.
#include <span>

#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/decode_attention.cuh"
#include "kernels/cuda/quant_product.cuh"
#include "kernels/cuda/streamed.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int64_t kMaxStreamedRows = 64;

// Whether streamed kernels have this shape; `s` receives the products.
bool stream(const PackedGemmBf16& a, Streamed& s) {
  if (a.m > kMaxStreamedRows || a.count > kMaxStreamed) return false;
  const int64_t k = a.products[0].b->k();
  if (k <= 0 || k % 128 != 0 || k > (1 << 20)) return false;
  s.even = true;
  s.m = static_cast<int>(a.m), s.k = static_cast<int>(k), s.count = static_cast<int>(a.count), s.a = a.a;
  for (int i = 0; i < s.count; ++i) {
    const auto& weight = static_cast<const CudaWeight&>(*a.products[i].b);
    if (weight.type() != DType::kBF16 || weight.k() != k || weight.n() > (1 << 24) || weight.n() <= 0) return false;
    const int n = static_cast<int>(weight.n()), tiles = (n + kTileRows - 1) / kTileRows;
    s.products[i] = {reinterpret_cast<const Bf16*>(weight.data()), a.products[i].c, a.products[i].bias, n, tiles};
    s.tiles += tiles;
    s.even = s.even && n % 2 == 0 && reinterpret_cast<uintptr_t>(a.products[i].c) % 4 == 0;
  }
  return true;
}

void run(cudaStream_t stream_of, const Streamed& s) {
  if (fits_few(s)) return run_few(stream_of, s);
  if (s.m <= 16) return run_sixteen(stream_of, s);
  fits_mid(s) ? run_mid(stream_of, s) : run_many(stream_of, s);
}

}  // namespace

bool kernels::cuda::run_streamed(cudaStream_t stream_of, const PackedGemmBf16& a) {
  Streamed s{};
  if (!stream(a, s) || !aligned(a.a)) return false;
  run(stream_of, s);
  return true;
}

void CudaDevice::fused_products_bf16(const FusedProductsBf16& a) {
  Streamed s{};
  if (a.products.m <= 0) return;
  const bool gated = a.gated && a.products.count == 2 && a.products.products[0].b->n() == a.products.products[1].b->n() &&
                     (a.kind == Activation::kSilu || a.kind == Activation::kGeluTanh);
  const bool added = a.sum && a.products.count == 1;
  if ((a.gated && !gated) || (a.sum && !added) || (a.gated && a.sum) || !stream(a.products, s))
    return run_separately(*this, a);
  s.ending = gated ? Ending::kGated : added ? Ending::kAdd : Ending::kStore;
  s.kind = a.kind, s.residual = a.residual, s.sum = a.sum, s.gated = a.gated;
  if (gated) s.tiles = s.products[0].tiles;
  s.even = s.even && all_aligned(s.residual, s.sum) && aligned(s.gated);
  const bool rms = a.norm && a.norm->rms && a.norm->w && !a.norm->b && all_aligned(a.norm->x, a.norm->w);
  if (rms) s.x = a.norm->x, s.norm_w = a.norm->w, s.eps = a.norm->eps, s.offset = a.norm->offset;
  // One row: a norm of its own takes less time than one in every block.
  if (fits_few(s) && (!a.norm || (rms && s.m > 1)) && (rms || aligned(s.a))) return run(stream_, s);
  if (a.norm) norm_bf16(*a.norm);
  s.x = nullptr;
  if (!aligned(s.a)) {
    FusedProductsBf16 rest = a;
    rest.norm = nullptr;
    return run_separately(*this, rest);
  }
  run(stream_, s);
}

void CudaDevice::fused_products(const FusedProducts& a) {
  if (a.products.m <= 0) return;
  const std::span<const PackedProduct> products(a.products.products, static_cast<size_t>(a.products.count));
  const bool blocks = std::all_of(products.begin(), products.end(), [](const PackedProduct& p) {
    return static_cast<const CudaWeight&>(*p.b).form() >= 0 && !p.out.accumulate;
  });
  const bool gated = a.gated && products.size() == 2 && products[0].b->n() == products[1].b->n() &&
                     (a.kind == Activation::kSilu || a.kind == Activation::kGeluTanh);
  const bool added = a.sum && products.size() == 1;
  if (!blocks || (a.gated && !gated) || (a.sum && !added) || (a.gated && a.sum)) return run_separately(*this, a);
  if (a.norm) norm_bf16(*a.norm);
  QuantCall call = quant_call(a.products);
  call.kind = a.kind, call.gated = a.gated, call.residual = a.residual, call.sum = a.sum;
  call.ending = gated && gates(call) ? QuantEnding::kGated : added ? QuantEnding::kAdd : QuantEnding::kFloats;
  run_quant(stream_, memory_, call);
  if (gated && call.ending != QuantEnding::kGated)
    this->gated({a.kind, products[0].out.c, products[1].out.c, a.gated, a.products.m * products[0].b->n()});
}

void CudaDevice::decode_attention_bf16(const DecodeAttentionBf16& a) {
  if (a.shape.count <= 0 || run_decode_attention(stream_, a)) return;
  run_separately(*this, a);
}

}  // namespace makar
