#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {

using namespace kernels;
using cuda::each;
using cuda::madd;

void CudaDevice::rope_table(const RopeTableRows& a) {
  each(stream_, a.rows * a.half, [=] __device__(int64_t i) {
    const float angle = static_cast<float>(a.positions[i / a.half]) * a.frequencies[i % a.half];
    const cuda::CosSin at = cuda::cos_sin_of(angle);
    a.cos[i] = static_cast<float>(at.cos * a.factor);
    a.sin[i] = static_cast<float>(at.sin * a.factor);
  });
}

void CudaDevice::rope(const Rope& a) {
  const int64_t half = a.rotary / 2, pairs = half + (a.head_dim - a.rotary), width = a.heads * a.head_dim;
  // One thread per rotated pair, and one per unrotated dimension.
  each(stream_, a.rows * a.heads * pairs, [=] __device__(int64_t item) {
    const int64_t i = item % pairs, head = item / pairs % a.heads, r = item / (pairs * a.heads);
    const float* x = a.x + r * width + head * a.head_dim;
    float* y = a.y + r * width + head * a.head_dim;
    if (i >= half) {
      const int64_t d = i + half;
      y[d] = x[d];
      return;
    }
    const int64_t first = a.interleaved ? 2 * i : i, second = a.interleaved ? 2 * i + 1 : i + half;
    const float p = x[first], q = x[second], c = a.cos[r * half + i], s = a.sin[r * half + i] * a.sign;
    y[first] = madd(p, c, -(q * s));
    y[second] = madd(q, c, p * s);
  });
}

}  // namespace makar
