#include <cfloat>

#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {

using namespace kernels;
using cuda::each;
using cuda::madd;
using cuda::once;

void CudaDevice::update(const Update& u) {
  each(stream_, u.n, [=] __device__(int64_t i) {
    float *p = u.p + i, *s = u.state + i;
    const float g = u.l2 != 0.0f ? u.g[i] * u.factor + u.l2 * *p : u.g[i] * u.factor;
    switch (u.kind) {
      case UpdateKind::kSgd: *p -= u.lr * g; break;
      case UpdateKind::kMomentum:
      case UpdateKind::kNesterov: {
        *s = u.first ? g : u.momentum * *s + g;
        *p -= u.lr * (u.kind == UpdateKind::kNesterov ? g + u.momentum * *s : *s);
        break;
      }
      case UpdateKind::kAdagrad: {
        *s += g * g;
        *p -= u.lr * g / (sqrtf(*s) + u.eps);
        break;
      }
      case UpdateKind::kRmsprop: {
        *s = u.beta2 * *s + u.rest2 * g * g;
        *p -= u.lr * g / (sqrtf(*s) + u.eps);
        break;
      }
      case UpdateKind::kLion: {
        const float blend = u.beta1 * *s + u.rest1 * g;
        *p = *p * u.decay - (blend > 0.0f ? u.lr : (blend < 0.0f ? -u.lr : 0.0f));
        *s = u.beta2 * *s + u.rest2 * g;
        break;
      }
    }
  });
}

namespace {

// A list of tensors divided into blocks of kAdamBlock values: block b of the launch belongs to the tensor t with
// first[t] <= b < first[t + 1].
constexpr int64_t kAdamBlock = 4096;
struct AdamBlocks {
  cuda::Several<AdamW> tensors;
  unsigned first[cuda::Several<AdamW>::kMax + 1];
};

__device__ inline void adamw_value(const AdamStep& s, float& p, float g, float& m, float& v) {
  const float grad = madd(s.l2, p, g * s.grad_scale);
  m = madd(s.rest1, grad - m, m), v = madd(s.rest2 * grad, grad, s.beta2 * v);
  p = p * s.decay - s.step * m / madd(sqrtf(v), s.v_scale, s.eps);
}

__global__ void __launch_bounds__(cuda::kThreads) adamw_kernel(const __grid_constant__ AdamBlocks all) {
  int t = 0;
  while (blockIdx.x >= all.first[t + 1]) ++t;
  const AdamW& a = all.tensors.items[t];
  const int64_t begin = (blockIdx.x - all.first[t]) * kAdamBlock, end = begin + kAdamBlock < a.n ? begin + kAdamBlock : a.n;
  const bool vector = ((reinterpret_cast<uintptr_t>(a.p) | reinterpret_cast<uintptr_t>(a.g) | reinterpret_cast<uintptr_t>(a.m) |
                        reinterpret_cast<uintptr_t>(a.v)) % sizeof(float4)) == 0;
#pragma unroll
  for (int round = 0; round < kAdamBlock / (4 * cuda::kThreads); ++round) {
    const int64_t i = begin + (round * cuda::kThreads + threadIdx.x) * 4;
    if (vector && i + 4 <= end) {
      const float4 g = *reinterpret_cast<const float4*>(a.g + i);
      float4 p = *reinterpret_cast<float4*>(a.p + i), m = *reinterpret_cast<float4*>(a.m + i), v = *reinterpret_cast<float4*>(a.v + i);
      adamw_value(a.step, p.x, g.x, m.x, v.x);
      adamw_value(a.step, p.y, g.y, m.y, v.y);
      adamw_value(a.step, p.z, g.z, m.z, v.z);
      adamw_value(a.step, p.w, g.w, m.w, v.w);
      *reinterpret_cast<float4*>(a.p + i) = p, *reinterpret_cast<float4*>(a.m + i) = m, *reinterpret_cast<float4*>(a.v + i) = v;
    } else {
      for (int64_t j = i; j < i + 4 && j < end; ++j) adamw_value(a.step, a.p[j], a.g[j], a.m[j], a.v[j]);
    }
  }
}

}  // namespace

void CudaDevice::adamw(const AdamWList& all) {
  cuda::in_parts(all.items, all.count, [&](const cuda::Several<AdamW>& part, unsigned count, int64_t) {
    AdamBlocks blocks{part, {}};
    for (unsigned t = 0; t < count; ++t)
      blocks.first[t + 1] = blocks.first[t] + static_cast<unsigned>((part.items[t].n + kAdamBlock - 1) / kAdamBlock);
    cuda::launch(stream_, blocks.first[count], cuda::kThreads, 0, adamw_kernel, blocks);
  });
}

namespace {

// For each of the consecutive arrays of n values, calls then(sum of squares, index of the array) on one thread.
template <class F>
__global__ void sum_of_squares_kernel(const float* all, int64_t n, F then) {
  __shared__ double lanes[kSquareLanes];
  const float* x = all + blockIdx.x * n;
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < n; i += kSquareLanes) sum += static_cast<double>(x[i]) * x[i];
  lanes[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double total = 0;
  for (int i = 0; i < kSquareLanes; ++i) total += lanes[i];
  then(total, blockIdx.x);
}
template <class F>
void with_sum_of_squares(cudaStream_t stream, const float* x, int64_t n, F then, int64_t count = 1) {
  cuda::launch(stream, static_cast<unsigned>(count), kSquareLanes, 0, sum_of_squares_kernel<F>, x, n, then);
}
__device__ float lerp_to(float from, double to, double weight) { return static_cast<float>(from + weight * (to - from)); }

}  // namespace

void CudaDevice::adafactor(const Adafactor& a) {
  const double eps = FLT_EPSILON, count = static_cast<double>(a.n);
  const CudaScratch<double> scalars(memory_, 2);
  double *alpha = scalars.data(), *row_mean = alpha + 1;
  with_sum_of_squares(stream_, a.p, a.n, [=] __device__(double sum, unsigned) {
    const double rms = sqrt(sum / count);
    *alpha = (rms > 1e-3 ? rms : 1e-3) * a.rho;  // 1e-3: lower bound for the RMS of a parameter
  });
  float* e = a.scratch;
  if (!a.col_var) {
    each(stream_, a.n, [=] __device__(int64_t i) {
      const double x = a.g[i] * a.factor;
      e[i] = a.row_var[i] = lerp_to(a.row_var[i], x * x, a.weight);
    });
  } else {
    const int64_t size = a.rows * a.cols;
    for (int64_t b = 0; b * size < a.n; ++b) {
      const float* g = a.g + b * size;
      float *rows = a.row_var + b * a.rows, *columns = a.col_var + b * a.cols, *estimate = e + b * size;
      each(stream_, a.rows, [=] __device__(int64_t i) {
        double sum = 0;
        for (int64_t j = 0; j < a.cols; ++j) {
          const double x = g[i * a.cols + j] * a.factor;
          sum += x * x;
        }
        rows[i] = lerp_to(rows[i], sum / static_cast<double>(a.cols), a.weight);
      });
      each(stream_, a.cols, [=] __device__(int64_t j) {
        double sum = 0;
        for (int64_t i = 0; i < a.rows; ++i) {
          const double x = g[i * a.cols + j] * a.factor;
          sum += x * x;
        }
        columns[j] = lerp_to(columns[j], sum / static_cast<double>(a.rows), a.weight);
      });
      once(stream_, [=] __device__() {
        double mean = 0;
        for (int64_t i = 0; i < a.rows; ++i) mean += rows[i] / static_cast<double>(a.rows);
        *row_mean = mean > eps ? mean : eps;
      });
      each(stream_, size, [=] __device__(int64_t i) {
        estimate[i] =
            static_cast<float>(rows[i / a.cols] * static_cast<double>(columns[i % a.cols]) / *row_mean);
      });
    }
  }
  const float min = static_cast<float>(eps * eps);
  each(stream_, a.n, [=] __device__(int64_t i) { e[i] = a.g[i] * a.factor / sqrtf(e[i] > min ? e[i] : min); });
  double* step = row_mean;  // reuses the scalar
  with_sum_of_squares(stream_, e, a.n, [=] __device__(double sum, unsigned) {
    const double rms = sqrt(sum / count);
    *step = *alpha / (rms > 1.0 ? rms : 1.0);
  });
  each(stream_, a.n, [=] __device__(int64_t i) { a.p[i] = a.p[i] * a.decay - static_cast<float>(*step) * e[i]; });
}

namespace {

__device__ int64_t transposed_index(int64_t i, int64_t rows, int64_t cols, bool transposed) {
  return transposed ? i % cols * rows + i / cols : i;
}

}  // namespace

void CudaDevice::muon_momentum(const MuonMomentum& a) {
  each(stream_, a.rows * a.cols, [=] __device__(int64_t i) {
    const float grad = a.g[i] * a.factor;
    a.v[i] += a.rest * (grad - a.v[i]);
    a.x[transposed_index(i, a.rows, a.cols, a.transposed)] = grad + a.mu * (a.v[i] - grad);
  });
}
void CudaDevice::normalize(const Normalize& a) {
  if (a.count <= 0) return;
  const CudaScratch<float> scalars(memory_, a.count);
  float* inverse = scalars.data();
  with_sum_of_squares(
      stream_, a.x, a.n,
      [=] __device__(double sum, unsigned i) {
        const double length = sqrt(sum);
        inverse[i] = static_cast<float>(1.0 / (length > a.min ? length : a.min));
      },
      a.count);
  each(stream_, a.n * a.count, [=] __device__(int64_t i) { a.x[i] *= inverse[i / a.n]; });
}
void CudaDevice::muon_apply(const MuonApply& a) {
  each(stream_, a.rows * a.cols, [=] __device__(int64_t i) {
    a.p[i] = a.p[i] * a.decay - a.step * a.x[transposed_index(i, a.rows, a.cols, a.transposed)];
  });
}

}  // namespace makar
