// Draws the next tokens: one block per row, which reads its logits up to 15 times, more often if logits at the limit of top-p are equal. Weights are integers (weight_units), so that their
// sums do not depend on the order, and the tokens are those of the host's sampler (src/infer/samplers).
#include <climits>

#include "base/rng.h"
#include "kernels/cpu/isa/activations.h"
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/sampling.h"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

using Int = long long;

constexpr int kSampleThreads = 1024, kSampleWarps = kSampleThreads / 32, kDigitBits = 8, kDigits = 1 << kDigitBits;
constexpr unsigned kAll = 0xFFFFFFFFu;

__device__ inline float value_at(const float* x, Int i) { return x[i]; }
__device__ inline float value_at(const Bf16* x, Int i) { return widen(x[i]); }

// Floats as integers of the same order; -0 is +0.
__device__ inline uint32_t order_of(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

template <class T, class F>
__device__ inline T of_warp(T x, F combine) {
  for (int width = 16; width > 0; width /= 2) x = combine(x, __shfl_xor_sync(kAll, x, width));
  return x;
}
// Combines a value of every thread; all threads receive the result.
template <class T, class F>
__device__ inline T of_block(T x, F combine, T* shared) {
  x = of_warp(x, combine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  return of_warp(shared[threadIdx.x % kSampleWarps], combine);
}
struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Least {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
// The sum of x over the lanes up to this one.
__device__ inline Int running_sum(Int x) {
  for (int width = 1; width < 32; width *= 2) {
    const Int lower = __shfl_up_sync(kAll, x, width);
    if (static_cast<int>(threadIdx.x % 32) >= width) x += lower;
  }
  return x;
}

// Adds the weights of a warp to sums of digits. Lanes often share a digit, and then one of them adds for all.
__device__ inline void add_digits(unsigned long long* sums, uint32_t digit, Int weight) {
  constexpr int kShared = 4;
  const unsigned lane = threadIdx.x % 32;
  unsigned left = __ballot_sync(kAll, weight > 0);
  for (int i = 0; i < kShared && left != 0; ++i) {
    const int first = __ffs(static_cast<int>(left)) - 1;
    const uint32_t shared = __shfl_sync(kAll, digit, first);
    const bool member = weight > 0 && digit == shared;
    const Int sum = of_warp(member ? weight : 0, Sum());
    if (lane == static_cast<unsigned>(first)) atomicAdd(sums + digit, static_cast<unsigned long long>(sum));
    left &= ~__ballot_sync(kAll, member);
  }
  if (left >> lane & 1) atomicAdd(sums + digit, static_cast<unsigned long long>(weight));
}

// The largest key at which the sum of the weights of all keys from it upwards reaches `target`, which loses the sum of the larger
// keys. each(add) calls add(key, weight) for all threads of a warp together; a weight of 0 does not count.
template <class Each>
__device__ uint32_t rank_key(Int& target, Each&& each, unsigned long long* sums) {
  __shared__ uint32_t chosen;
  __shared__ Int above;
  uint32_t prefix = 0;
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    __syncthreads();
    if (threadIdx.x < kDigits) sums[threadIdx.x] = 0;
    __syncthreads();
    each([&](uint32_t key, Int weight) {
      const bool inside = shift == 32 - kDigitBits || key >> (shift + kDigitBits) == prefix;
      add_digits(sums, key >> shift & (kDigits - 1), inside ? weight : 0);
    });
    __syncthreads();
    if (threadIdx.x < 32) {  // a lane has eight digits, the first lane the largest ones
      constexpr int kEach = kDigits / 32;
      const int top = kDigits - 1 - static_cast<int>(threadIdx.x) * kEach;
      Int own = 0;
      for (int i = 0; i < kEach; ++i) own += static_cast<Int>(sums[top - i]);
      const Int up_to = running_sum(own);
      const unsigned reached = __ballot_sync(kAll, up_to >= target);
      const int lane = reached ? __ffs(static_cast<int>(reached)) - 1 : 31;
      if (static_cast<int>(threadIdx.x) == lane) {
        Int sum = up_to - own;
        int i = 0;
        for (; i + 1 < kEach && sum + static_cast<Int>(sums[top - i]) < target; ++i) sum += static_cast<Int>(sums[top - i]);
        chosen = static_cast<uint32_t>(top - i), above = sum;
      }
    }
    __syncthreads();
    prefix = prefix << kDigitBits | chosen;
    target -= above;
  }
  return prefix;
}

template <class T>
__global__ void __launch_bounds__(kSampleThreads) sample_kernel(const __grid_constant__ SampleRows a) {
  __shared__ unsigned long long sums[kDigits];
  __shared__ float floats[kSampleWarps];
  __shared__ Int wholes[kSampleWarps];
  let_next_kernel_start();
  wait_for_previous_kernel();
  const T* x = static_cast<const T*>(a.x) + blockIdx.x * a.cols;
  RowSampler& sampler = a.samplers[blockIdx.x];
  const RowSampler s = sampler;
  const Int cols = a.cols;
  const auto answer = [&](Int token) {
    if (threadIdx.x == 0) a.y[blockIdx.x] = token, sampler.index = s.index + 1;
  };
  // The threads of a warp run together; behind the last logit the value is that of a masked one.
  const auto each = [&](auto&& body) {
    for (Int first = 0; first < cols; first += kSampleThreads) {
      const Int i = first + threadIdx.x;
      body(i, i < cols ? value_at(x, i) : -INFINITY);
    }
  };

  float high = -INFINITY, low = INFINITY;
  bool broken = false;
  Int finite = 0;
  each([&](Int, float v) {
    broken = broken || !(v < INFINITY);
    if (v == -INFINITY) return;
    ++finite, high = v > high ? v : high, low = v < low ? v : low;
  });
  high = -of_block(-high, Least(), floats), low = of_block(low, Least(), floats);
  finite = of_block(finite, Sum(), wholes);
  if (__syncthreads_or(broken) || finite == 0) return answer(-1);
  if (s.temperature <= 0 || s.top_k == 1) {
    Int first = LLONG_MAX;
    each([&](Int i, float v) { first = v == high && i < first ? i : first; });
    return answer(of_block(first, Least(), wholes));
  }

  uint32_t least_key = 0;  // of the logits that top-k keeps
  if (s.top_k > 0 && s.top_k < finite) {
    Int count = s.top_k;
    least_key = rank_key(count, [&](auto&& add) { each([&](Int, float v) { add(order_of(v), v != -INFINITY); }); }, sums);
    low = INFINITY;
    each([&](Int, float v) { low = v != -INFINITY && order_of(v) >= least_key && v < low ? v : low; });
    low = of_block(low, Least(), floats);
  }
  const float best = high / s.temperature;
  if (!isfinite(best) || !isfinite(low / s.temperature)) return answer(-1);  // left to the host

  uint32_t last_key = 0;  // top-p keeps the logits above, and those that are equal up to last_index
  Int last_index = LLONG_MAX;
  float least_weight = 0.0f;
  struct Candidate {
    uint32_t key;
    Int units;  // 0: it cannot be drawn
  };
  const auto candidate = [&](Int i, float v) -> Candidate {
    if (v == -INFINITY || order_of(v) < least_key) return {0, 0};
    const float scaled = v / s.temperature, w = Exp::value(scaled - best);
    const uint32_t key = order_of(scaled);
    if (key < last_key || (key == last_key && i > last_index) || w < least_weight) return {0, 0};
    return {key, weight_units(w)};
  };
  if (s.top_p < 1) {
    Int total = 0;
    each([&](Int i, float v) { total += candidate(i, v).units; });
    total = of_block(total, Sum(), wholes);
    Int target = units_for(s.top_p, total);
    const uint32_t key = rank_key(target, [&](auto&& add) {
      each([&](Int i, float v) {
        const Candidate c = candidate(i, v);
        add(c.key, c.units);
      });
    }, sums);
    // Of equal logits, the first ones are kept.
    const auto count_equal = [&](Int up_to, Int& units) {
      Int count = 0, least = 0;
      each([&](Int i, float v) {
        const Candidate c = candidate(i, v);
        if (c.units > 0 && c.key == key && i <= up_to) ++count, least = -c.units;
      });
      units = -of_block(least, Least(), wholes);
      return of_block(count, Sum(), wholes);
    };
    Int units = 0, unused = 0;
    const Int equal = count_equal(cols, units), kept = units > 0 ? (target + units - 1) / units : equal;
    Int first = 0, last = cols - 1;  // the kept-th of them is between these indices
    while (kept < equal && first < last) {
      const Int middle = (first + last) / 2;
      if (count_equal(middle, unused) >= kept)
        last = middle;
      else
        first = middle + 1;
    }
    last_key = key, last_index = last;
  }
  least_weight = s.min_p;

  // A thread has a span of neighbouring logits, so the running sum follows the indices.
  const Int span = (cols + kSampleThreads - 1) / kSampleThreads, from = threadIdx.x * span, to = min(from + span, cols);
  Int own = 0;
  for (Int i = from; i < to; ++i) own += candidate(i, value_at(x, i)).units;
  const Int total = of_block(own, Sum(), wholes);
  if (total <= 0) return answer(-1);
  Int before = running_sum(own);
  __syncthreads();
  if (threadIdx.x % 32 == 31) wholes[threadIdx.x / 32] = before;
  __syncthreads();
  for (int warp = 0; warp < static_cast<int>(threadIdx.x) / 32; ++warp) before += wholes[warp];
  before -= own;
  const Int drawn = drawn_unit(Rng(s.seed, Purpose::kSample).uniform_double(s.index), total);
  if (threadIdx.x == 0) sampler.index = s.index + 1;
  if (drawn < before || drawn >= before + own) return;
  Int left = drawn - before;
  for (Int i = from; i < to; ++i)
    if ((left -= candidate(i, value_at(x, i)).units) < 0) {
      a.y[blockIdx.x] = i;
      return;
    }
}

}  // namespace

void CudaDevice::sample_rows(const SampleRows& a) {
  if (a.rows <= 0) return;
  const dim3 grid(static_cast<unsigned>(a.rows));
  if (a.type == DType::kF32)
    launch_early(stream_, grid, kSampleThreads, 0, sample_kernel<float>, a);
  else
    launch_early(stream_, grid, kSampleThreads, 0, sample_kernel<Bf16>, a);
}

}  // namespace makar
