// Matrix products in f32: every output adds k = 0, 1, 2, ... in sequence with fused multiply-add, as on the
// CPU.
#include <cuda_fp16.h>

#include <vector>

#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/cuda_weight.cuh"
#include "kernels/cuda/expert_products.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quant_product.cuh"

namespace makar {

using namespace kernels;
using cuda::madd;

namespace {

constexpr size_t kPackedAlignment = 256;  // of weights that are packed together
constexpr int kThreadsPerBlock = 256, kLoads = 4;  // loads of each operand per thread and step

// A block of 16 x 16 threads computes 16 * each rows and columns, `each` x `each` outputs per thread. Small
// outputs use a small tile, so that there are blocks for all multiprocessors; the tile does not change the
// order of a sum.
template <int each>
struct Tile {
  static constexpr int rows = 16 * each, depth = kLoads * kThreadsPerBlock / rows;
};

__device__ inline float read(const Operand& x, int64_t row, int64_t k) {
  const int64_t at = row * x.row_stride + k * x.k_stride;
  if (x.type == DType::kF32) return static_cast<const float*>(x.data)[at];
  if (x.type == DType::kF16) return __half2float(static_cast<const __half*>(x.data)[at]);
  return __uint_as_float(static_cast<uint32_t>(static_cast<const uint16_t*>(x.data)[at]) << 16);  // bf16
}

// The elements of an operand that this thread loads for one step; neighbouring threads read along stride 1.
template <class T>
struct Loader {
  const Operand& x;
  int64_t row0, rows, k;
  float values[kLoads];

  __device__ int row(int i) const {
    const int at = threadIdx.x + i * kThreadsPerBlock;
    return x.k_stride == 1 ? at / T::depth : at % T::rows;
  }
  __device__ int step(int i) const {
    const int at = threadIdx.x + i * kThreadsPerBlock;
    return x.k_stride == 1 ? at % T::depth : at / T::rows;
  }
  __device__ void load(int64_t k0) {
    for (int i = 0; i < kLoads; ++i)
      values[i] = row0 + row(i) < rows && k0 + step(i) < k ? read(x, row0 + row(i), k0 + step(i)) : 0.0f;
  }
  __device__ void store(float (&to)[T::depth][T::rows + 1]) const {
    for (int i = 0; i < kLoads; ++i) to[step(i)][row(i)] = values[i];
  }
};

struct Steps {  // values from one product of a batch to the next
  int64_t a, b, c;
};

template <int each>
__global__ void gemm_kernel(int64_t m, int64_t n, int64_t k, Operand a, Operand b, GemmOutput out, Steps steps) {
  using T = Tile<each>;
  if (blockIdx.z > 0) {
    a.data = static_cast<const float*>(a.data) + blockIdx.z * steps.a;
    b.data = static_cast<const float*>(b.data) + blockIdx.z * steps.b;
    out.c += blockIdx.z * steps.c;
  }
  __shared__ float as[T::depth][T::rows + 1], bs[T::depth][T::rows + 1];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * T::rows,
                col0 = static_cast<int64_t>(blockIdx.x) * T::rows;
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  float c[each][each] = {};
  const auto each_output = [&](auto&& body) {
    for (int i = 0; i < each; ++i)
      for (int j = 0; j < each; ++j) {
        const int64_t row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
        if (row < m && col < n) body(c[i][j], out.c[row * out.ldc + col], col);
      }
  };
  if (out.accumulate) each_output([](float& sum, float& to, int64_t) { sum = to; });
  Loader<T> load_a{a, row0, m, k}, load_b{b, col0, n, k};
  load_a.load(0), load_b.load(0);
  for (int64_t k0 = 0; k0 < k; k0 += T::depth) {
    load_a.store(as), load_b.store(bs);
    __syncthreads();
    load_a.load(k0 + T::depth), load_b.load(k0 + T::depth);  // the next step, while this one is computed
    const int depth = k - k0 < T::depth ? static_cast<int>(k - k0) : T::depth;
    const auto add = [&](int p) {
      for (int i = 0; i < each; ++i)
        for (int j = 0; j < each; ++j) c[i][j] = madd(as[p][ty + 16 * i], bs[p][tx + 16 * j], c[i][j]);
    };
    if (depth == T::depth)
      for (int p = 0; p < T::depth; ++p) add(p);
    else
      for (int p = 0; p < depth; ++p) add(p);
    __syncthreads();
  }
  each_output([&](float& sum, float& to, int64_t col) { to = out.bias ? sum + out.bias[col] : sum; });
}

// Launches with this tile if it gives a block to each multiprocessor, else with a smaller one.
template <int each>
void run_gemm(cudaStream_t stream, const Gemm& a, unsigned count = 1, const Steps& steps = {}) {
  constexpr int rows = Tile<each>::rows;
  const dim3 grid(static_cast<unsigned>((a.n + rows - 1) / rows),
                  static_cast<unsigned>((a.m + rows - 1) / rows), count);
  if constexpr (each > 1)
    if (grid.x * grid.y * count < cuda::kMultiprocessors) return run_gemm<each / 2>(stream, a, count, steps);
  cuda::launch(stream, grid, kThreadsPerBlock, 0, gemm_kernel<each>, a.m, a.n, a.k, a.a, a.b, a.out, steps);
}

// Products of routed rows: a block computes 8 places and 32 columns, one output per thread.
constexpr int kPlaces = 8, kColumns = 32, kDepth = 32;
struct RoutedGemm {
  ExpertTiles tiles;
  const float* x;
  bool gathered;
  Operand b;
  int64_t b_step, n, k;  // b_step: bytes from one expert to the next
  const float* const* biases;
  float* y;
};
__global__ void routed_kernel(const __grid_constant__ RoutedGemm p) {
  __shared__ float xs[kPlaces][kDepth], bs[kDepth][kColumns + 1];
  const int r = threadIdx.x / kColumns, c = threadIdx.x % kColumns;
  const int64_t place = static_cast<int64_t>(blockIdx.y) * kPlaces + r, column = static_cast<int64_t>(blockIdx.x) * kColumns + c;
  const int64_t per_tile = p.tiles.rows_per_tile, expert = p.tiles.experts[blockIdx.y * kPlaces / per_tile];
  if (expert < 0) return;
  const int64_t row = p.tiles.rows[place], from = p.gathered ? row : place;
  Operand b = p.b;
  b.data = static_cast<const std::byte*>(b.data) + expert * p.b_step;
  float sum = 0.0f;
  for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
    xs[r][c] = row >= 0 && k0 + c < p.k ? p.x[from * p.k + k0 + c] : 0.0f;
    for (int i = r; i < kColumns; i += kPlaces) {
      const int64_t weight = static_cast<int64_t>(blockIdx.x) * kColumns + i;
      bs[c][i] = weight < p.n && k0 + c < p.k ? read(b, weight, k0 + c) : 0.0f;
    }
    __syncthreads();
    const int depth = p.k - k0 < kDepth ? static_cast<int>(p.k - k0) : kDepth;
    for (int d = 0; d < depth; ++d) sum = madd(xs[r][d], bs[d][c], sum);
    __syncthreads();
  }
  if (row >= 0 && column < p.n) p.y[place * p.n + column] = p.biases ? sum + p.biases[expert][column] : sum;
}

template <class T>
void copy_strided(cudaStream_t stream, const T* from, int64_t row_stride, int64_t k_stride, T* to, int64_t n,
                  int64_t k) {
  cuda::each(stream, n * k,
             [=] __device__(int64_t i) { to[i] = from[i / k * row_stride + i % k * k_stride]; });
}

}  // namespace

void CudaDevice::gemm(const Gemm& a) {
  if (a.m <= 0 || a.n <= 0) return;
  run_gemm<4>(stream_, a);
}

void CudaDevice::gemm_batch(const GemmBatch& a) {
  constexpr int64_t kMaxCount = 65535;  // limit of a grid's z dimension
  if (a.first.m <= 0 || a.first.n <= 0) return;
  for (int64_t i = 0; i < a.count; i += kMaxCount) {
    Gemm part = a.first;
    part.a.data = static_cast<const float*>(part.a.data) + i * a.a_step;
    part.b.data = static_cast<const float*>(part.b.data) + i * a.b_step;
    part.out.c += i * a.c_step;
    run_gemm<4>(stream_, part, static_cast<unsigned>(std::min(kMaxCount, a.count - i)), {a.a_step, a.b_step, a.c_step});
  }
}

std::shared_ptr<const PackedWeight> CudaDevice::pack(const Operand& b, int64_t n, int64_t k) {
  return pack_together({&b, 1}, n, k)[0];
}

std::vector<std::shared_ptr<const PackedWeight>> CudaDevice::pack_together(std::span<const Operand> weights, int64_t n, int64_t k) {
  const DType given = weights[0].type, type = given == DType::kF16_64 ? DType::kF16 : given;  // the same bytes
  const int form = cuda::cuda_form_of(given);
  const size_t bytes = form >= 0 ? cuda::quant_bytes(type, n, k) : bytes_of(type, n * k);
  const size_t step = weights.size() == 1 ? bytes : (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
  const size_t all = step * weights.size();
  const std::shared_ptr<std::byte> block(memory_.allocate(all), [this, all](std::byte* b) { memory_.deallocate(b, all); });
  std::vector<std::shared_ptr<const PackedWeight>> out;
  for (const Operand& b : weights) {
    check(b.type == given, "weights that are packed together have one type");
    check(!is_block(given) || (b.k_stride == 1 && b.row_stride == k), "a matrix of a block type must be contiguous");
    std::byte* const to = block.get() + step * out.size();
    const auto copy = [&](auto* values) {
      copy_strided(stream_, static_cast<decltype(values)>(const_cast<void*>(b.data)), b.row_stride, b.k_stride, values, n, k);
    };
    if (form >= 0)
      cuda::pack_blocks(stream_, type, static_cast<const std::byte*>(b.data), n, k, to);
    else if (size_of(type) == 4)
      copy(reinterpret_cast<uint32_t*>(to));
    else
      copy(reinterpret_cast<uint16_t*>(to));
    out.push_back(std::make_shared<CudaWeight>(type, n, k, form, bytes, std::shared_ptr<std::byte>(block, to)));
  }
  // Kernels that start early read weights before they wait. What is written before the last plain launch is visible to them: an
  // empty one. (finish() cannot be recorded.)
  cuda::once(stream_, [] __device__() {});
  return out;
}

void CudaDevice::gemm_packed(const PackedGemm& a) {
  if (a.m <= 0) return;
  for (int64_t i = 0; i < a.count; ++i) {
    const auto& b = static_cast<const CudaWeight&>(*a.products[i].b);
    if (b.form() < 0) gemm({a.m, b.n(), b.k(), a.a, b.operand(), a.products[i].out});
  }
  cuda::run_quant(stream_, memory_, cuda::quant_call(a));
}

void cuda::run_routed_f32(cudaStream_t stream, const ExpertProducts& a) {
  for (int64_t i = 0; i < a.count; ++i) {
    const CudaExperts w(a.products[i], a.experts);
    const RoutedGemm p{a.tiles, static_cast<const float*>(a.x), a.gathered, w.first->operand(), w.step, w.first->n(),
                       w.first->k(), a.products[i].biases, static_cast<float*>(a.products[i].y)};
    launch(stream, dim3(static_cast<unsigned>((p.n + kColumns - 1) / kColumns), static_cast<unsigned>(a.tiles.places() / kPlaces)),
           kPlaces * kColumns, 0, routed_kernel, p);
  }
}

}  // namespace makar
