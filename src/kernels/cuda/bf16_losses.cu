// Cross-entropy on bf16 logits.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kBlock = 512, kMaxKeptBytes = 220 << 10;

// The maximum so far, the sum of e^(x - maximum), and the sum of x.
struct Totals {
  float top, sum, logit_sum;
};
__device__ inline Totals combine(const Totals& a, const Totals& b) {
  const float top = fmaxf(a.top, b.top), base = top == -INFINITY ? 0.0f : top;
  return {top, a.sum * exp2_of((a.top - base) * kLog2e) + b.sum * exp2_of((b.top - base) * kLog2e), a.logit_sum + b.logit_sum};
}

// One block per row. kKept: the row is kept in shared memory between its two uses, so that it is read from
// memory once.
template <bool kKept>
__global__ void __launch_bounds__(kBlock) cross_entropy_kernel(CrossEntropyBf16 a, bool vector) {
  auto* const kept = reinterpret_cast<uint4*>(dynamic_shared());
  const int64_t r = blockIdx.x, target = a.targets[r];
  Bf16* x = a.x + r * a.stride;
  float v[8];
  if (target == kIgnoredTarget) {
    if (threadIdx.x == 0) a.losses[r] = 0.0f;
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
    if (a.gradient)
      for (int64_t c = threadIdx.x * 8; c < a.stride; c += kBlock * 8) store8(x + c, a.stride - c, vector, v);
    return;
  }
  const bool capped = a.soft_cap > 0.0f;
  const float to_cap = capped ? 1.0f / a.soft_cap : 0.0f;
  const auto logit = [&](float raw) { return capped ? a.soft_cap * tanhf(raw * to_cap) : raw; };
  if constexpr (kKept) {  // a thread copies what it reads
    for (int64_t c = threadIdx.x * 8; c < a.stride; c += kBlock * 8) copy16(shared_address(kept + c / 8), x + c, true);
    copies_commit();
    copies_wait<0>();
  }
  Totals totals{-INFINITY, 0.0f, 0.0f};
  for (int64_t c = threadIdx.x * 8; c < a.cols; c += kBlock * 8) {
    const int64_t left = a.cols - c;
    load8(kKept ? reinterpret_cast<const Bf16*>(kept + c / 8) : x + c, left, vector, v);
    float top = totals.top;
    for (int j = 0; j < 8; ++j) {
      v[j] = j < left ? logit(v[j]) : -INFINITY;
      if (j < left) totals.logit_sum += v[j];
      top = fmaxf(top, v[j]);
    }
    const float base = top == -INFINITY ? 0.0f : top * kLog2e;
    float sum = totals.sum * exp2_of(fmaf(totals.top, kLog2e, -base));
    for (int j = 0; j < 8; ++j) sum += exp2_of(fmaf(v[j], kLog2e, -base));
    totals.top = top, totals.sum = sum;
  }
  for (int width = 16; width > 0; width /= 2) {
    const Totals other{__shfl_xor_sync(0xFFFFFFFFu, totals.top, width), __shfl_xor_sync(0xFFFFFFFFu, totals.sum, width),
                       __shfl_xor_sync(0xFFFFFFFFu, totals.logit_sum, width)};
    totals = (threadIdx.x & width) ? combine(other, totals) : combine(totals, other);
  }
  __shared__ Totals warps[kBlock / 32];
  __shared__ float at_target;
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = totals;
  if (threadIdx.x == 0) at_target = logit(widen(x[target]));
  __syncthreads();
  Totals row_totals = warps[0];
  for (int w = 1; w < kBlock / 32; ++w) row_totals = combine(row_totals, warps[w]);
  const float lse = row_totals.top + logf(row_totals.sum);
  if (threadIdx.x == 0) {
    float loss = (1.0f - a.smoothing) * (lse - at_target);
    if (a.smoothing > 0.0f) loss += a.smoothing * (lse - row_totals.logit_sum / static_cast<float>(a.cols));
    a.losses[r] = loss;
  }
  if (!a.gradient) return;
  const float uniform_share = a.smoothing / static_cast<float>(a.cols) * a.weight, base = lse * kLog2e;
  for (int64_t c = threadIdx.x * 8; c < a.stride; c += kBlock * 8) {
    load8(kKept ? reinterpret_cast<const Bf16*>(kept + c / 8) : x + c, a.stride - c, vector, v);
    for (int j = 0; j < 8; ++j) {
      const float value = logit(v[j]);
      float d = fmaf(a.weight, exp2_of(fmaf(value, kLog2e, -base)), -uniform_share);
      if (c + j == target) d -= (1.0f - a.smoothing) * a.weight;
      if (capped) d *= 1.0f - value * to_cap * (value * to_cap);
      v[j] = c + j < a.cols ? d : 0.0f;
    }
    store8(x + c, a.stride - c, vector, v);
  }
}

}  // namespace

void CudaDevice::cross_entropy_bf16(const CrossEntropyBf16& a) {
  if (a.rows <= 0) return;
  const bool vector = aligned(a.x) && a.stride % 8 == 0;
  const size_t row_bytes = static_cast<size_t>(a.stride) * sizeof(Bf16);
  const auto rows = static_cast<unsigned>(a.rows);
  static const cudaError_t ready =
      cudaFuncSetAttribute(cross_entropy_kernel<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxKeptBytes);
  cuda_check(ready, "cross_entropy_bf16");
  if (vector && a.gradient && row_bytes <= kMaxKeptBytes)
    launch(stream_, rows, kBlock, row_bytes, cross_entropy_kernel<true>, a, true);
  else
    launch(stream_, rows, kBlock, 0, cross_entropy_kernel<false>, a, vector);
}

}  // namespace makar
