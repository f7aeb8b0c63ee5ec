// Matrix products c[m, n] = x[m, k] w[n, k]^T with k in sequence in steps of 16, in four forms that must give
// the same bits: a plain warp per 16 x 8 tile, a ring of bulk copies for few rows, and wgmma for many rows
// with two schedules.
#pragma once
#include <cudaTypedefs.h>

#include "check.cuh"
#include "wgmma.cuh"

// One warp per tile of 16 x 8, operands straight from global memory: the reference.
template <class T>
__global__ void product_plain(const T* x, const T* w, float* c, int m, int n, int k) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const int row = blockIdx.y * 16, column = blockIdx.x * 8;
  float d[4] = {0, 0, 0, 0};
  auto pair = [&](const T* base, int r, int limit, int p) {
    return r < limit ? *reinterpret_cast<const uint32_t*>(base + size_t(r) * k + p) : 0u;
  };
  for (int p = 0; p < k; p += 16) {
    const uint32_t a[4] = {pair(x, row + g, m, p + 2 * t), pair(x, row + g + 8, m, p + 2 * t),
                           pair(x, row + g, m, p + 2 * t + 8), pair(x, row + g + 8, m, p + 2 * t + 8)};
    const uint32_t b[2] = {pair(w, column + g, n, p + 2 * t), pair(w, column + g, n, p + 2 * t + 8)};
    mma_m16n8k16<T>(d, a, b);
  }
  for (int i = 0; i < 4; i++) {
    const int r = row + g + (i / 2) * 8, j = column + 2 * t + i % 2;
    if (r < m && j < n) c[size_t(r) * n + j] = d[i];
  }
}

// A tensor map over a row-major [rows, k] matrix, boxes of 64 k, 128-byte swizzle.
template <class T>
CUtensorMap tile_map(const T* data, uint64_t rows, uint64_t k, uint32_t box_rows) {
  static PFN_cuTensorMapEncodeTiled_v12000 encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CUDA_CHECK(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
  }();
  CUtensorMap map;
  const uint64_t size[2] = {k, rows}, stride[1] = {k * sizeof(T)};
  const uint32_t box[2] = {64, box_rows}, step[2] = {1, 1};
  const auto type =
      std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult status = encode(&map, type, 2, const_cast<T*>(data), size, stride, box, step,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) std::fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", int(status)), std::exit(1);
  return map;
}

// --- many rows: tiles of 128 x 256, one producer and two consumer warpgroups, a ring of four stages of 64 k
// ---
constexpr int kTileM = 128, kTileN = 256, kTileK = 64, kStages = 4;
constexpr int kStageBytes = (kTileM + kTileN) * kTileK * 2;
constexpr int kManyShared = kStages * kStageBytes + 1024 + 128;

template <class T, class Out>
__global__ __launch_bounds__(384, 1) void product_many(const __grid_constant__ CUtensorMap x,
                                                       const __grid_constant__ CUtensorMap w, Out* c, int m,
                                                       int n, int k) {
  extern __shared__ uint8_t raw[];
  uint8_t* ring = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t(1023));
  uint64_t* full = reinterpret_cast<uint64_t*>(ring + kStages * kStageBytes);
  uint64_t* empty = full + kStages;
  const int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) barrier_init(full + s, 1), barrier_init(empty + s, 2);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const int tiles_m = (m + kTileM - 1) / kTileM, tiles_n = (n + kTileN - 1) / kTileN, steps = k / kTileK;
  // Sixteen row tiles at a time walk the columns, so that both operands stay in the L2 cache.
  auto place = [&](int tile, int& tm, int& tn) {
    constexpr int kBand = 16;
    const int band = tile / (kBand * tiles_n), first = band * kBand, band_tiles = min(kBand, tiles_m - first);
    const int inside = tile - first * tiles_n;
    tm = first + inside % band_tiles, tn = inside / band_tiles;
  };
  int step = 0;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
        int tm, tn;
        place(tile, tm, tn);
        for (int s = 0; s < steps; s++, step++) {
          const int slot = step % kStages;
          barrier_wait(empty + slot, ((step / kStages) & 1) ^ 1);
          barrier_expect(full + slot, kStageBytes);
          uint8_t* stage = ring + slot * kStageBytes;
          copy_tile(stage, &x, full + slot, s * kTileK, tm * kTileM);
          copy_tile(stage + kTileM * 128, &w, full + slot, s * kTileK, tn * kTileN);
        }
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int half = group - 1, thread = threadIdx.x % 128, lane = thread % 32;
    for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
      int tm, tn;
      place(tile, tm, tn);
      float d[kTileN / 16][8];
#pragma unroll
      for (auto& row : d)
        for (float& value : row) value = 0;
      for (int s = 0; s < steps; s++, step++) {
        const int slot = step % kStages;
        barrier_wait(full + slot, (step / kStages) & 1);
        const uint8_t* stage = ring + slot * kStageBytes;
        const uint64_t a = tile_descriptor(stage + half * 64 * 128),
                       b = tile_descriptor(stage + kTileM * 128);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kTileK / 16; i++) wgmma<kTileN, T>(d, a + 2 * i, b + 2 * i);
        wgmma_commit();
        // The stage before this one is free once its products have retired.
        wgmma_wait<1>();
        if (s > 0 && thread == 0) barrier_arrive(empty + (step - 1) % kStages);
      }
      wgmma_wait<0>();
      if (thread == 0) barrier_arrive(empty + (step - 1) % kStages);
      const int row = tm * kTileM + half * 64 + thread / 32 * 16 + lane / 4;
#pragma unroll
      for (int i = 0; i < kTileN / 16; i++)
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
          const int r = row + (j & 2 ? 8 : 0),
                    column = tn * kTileN + 16 * i + (j & 4 ? 8 : 0) + 2 * (lane % 4);
          if (r >= m || column >= n) continue;
          Out* to = c + size_t(r) * n + column;
          if constexpr (sizeof(Out) == 4)
            *reinterpret_cast<float2*>(to) = {d[i][j], d[i][j + 1]};
          else
            *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(d[i][j], d[i][j + 1]);
        }
    }
  }
}

template <class T, class Out>
void run_many(const T* x, const T* w, Out* c, int m, int n, int k) {
  const CUtensorMap xs = tile_map(x, m, k, kTileM), ws = tile_map(w, n, k, kTileN);
  CUDA_CHECK(
      cudaFuncSetAttribute(product_many<T, Out>, cudaFuncAttributeMaxDynamicSharedMemorySize, kManyShared));
  const int tiles = ((m + kTileM - 1) / kTileM) * ((n + kTileN - 1) / kTileN);
  product_many<T, Out><<<std::min(tiles, kMultiprocessors), 384, kManyShared>>>(xs, ws, c, m, n, k);
  CUDA_CHECK(cudaGetLastError());
}

// --- many rows, alternating: two consumer warpgroups take turns, each with tiles of its own of 128 x 128, so
// that one stores its tile while the other multiplies. For short k, where storing is a large share. ---
constexpr int kTurnStages = 6, kTurnStageBytes = (128 + 128) * kTileK * 2;
constexpr int kTurnShared = kTurnStages * kTurnStageBytes + 1024 + 256;

template <class T, class Out>
__global__ __launch_bounds__(384, 1) void product_turns(const __grid_constant__ CUtensorMap x,
                                                        const __grid_constant__ CUtensorMap w, Out* c, int m,
                                                        int n, int k) {
  extern __shared__ uint8_t raw[];
  uint8_t* ring = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t(1023));
  uint64_t* full = reinterpret_cast<uint64_t*>(ring + kTurnStages * kTurnStageBytes);
  uint64_t *empty = full + kTurnStages, *turn = empty + kTurnStages;
  const int group = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kTurnStages; s++) barrier_init(full + s, 1), barrier_init(empty + s, 1);
    for (int s = 0; s < 2; s++) barrier_init(turn + s, 128);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const int tiles_m = (m + 127) / 128, tiles_n = (n + 127) / 128, tiles = tiles_m * tiles_n,
            steps = k / kTileK;
  auto place = [&](int tile, int& tm, int& tn) {
    constexpr int kBand = 16;
    const int band = tile / (kBand * tiles_n), first = band * kBand, band_tiles = min(kBand, tiles_m - first);
    const int inside = tile - first * tiles_n;
    tm = first + inside % band_tiles, tn = inside / band_tiles;
  };
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    int step = 0;
    if (threadIdx.x == 0)
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int tm, tn;
        place(tile, tm, tn);
        for (int s = 0; s < steps; s++, step++) {
          const int slot = step % kTurnStages;
          barrier_wait(empty + slot, ((step / kTurnStages) & 1) ^ 1);
          barrier_expect(full + slot, kTurnStageBytes);
          uint8_t* stage = ring + slot * kTurnStageBytes;
          copy_tile(stage, &x, full + slot, s * kTileK, tm * 128);
          copy_tile(stage + 128 * 128, &w, full + slot, s * kTileK, tn * 128);
        }
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int consumer = group - 1, thread = threadIdx.x % 128, lane = thread % 32;
    int round = 0;
    for (int tile = blockIdx.x + consumer * gridDim.x; tile < tiles; tile += 2 * gridDim.x, round++) {
      int tm, tn;
      place(tile, tm, tn);
      int step = (2 * round + consumer) * steps;
      float d[2][8][8];
#pragma unroll
      for (auto& half : d)
        for (auto& row : half)
          for (float& value : row) value = 0;
      barrier_wait(turn + consumer, (round & 1) ^ (consumer ^ 1));
      for (int s = 0; s < steps; s++, step++) {
        const int slot = step % kTurnStages;
        barrier_wait(full + slot, (step / kTurnStages) & 1);
        const uint8_t* stage = ring + slot * kTurnStageBytes;
        const uint64_t a0 = tile_descriptor(stage), a1 = tile_descriptor(stage + 64 * 128);
        const uint64_t b = tile_descriptor(stage + 128 * 128);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kTileK / 16; i++) {
          wgmma<128, T>(d[0], a0 + 2 * i, b + 2 * i);
          wgmma<128, T>(d[1], a1 + 2 * i, b + 2 * i);
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (s > 0 && thread == 0) barrier_arrive(empty + (step - 1) % kTurnStages);
      }
      barrier_arrive(turn + (consumer ^ 1));  // the other warpgroup may issue its products while these retire
      wgmma_wait<0>();
      if (thread == 0) barrier_arrive(empty + (step - 1) % kTurnStages);
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
          for (int j = 0; j < 8; j += 2) {
            const int r = tm * 128 + h * 64 + thread / 32 * 16 + lane / 4 + (j & 2 ? 8 : 0);
            const int column = tn * 128 + 16 * i + (j & 4 ? 8 : 0) + 2 * (lane % 4);
            if (r >= m || column >= n) continue;
            Out* to = c + size_t(r) * n + column;
            if constexpr (sizeof(Out) == 4)
              *reinterpret_cast<float2*>(to) = {d[h][i][j], d[h][i][j + 1]};
            else
              *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(d[h][i][j], d[h][i][j + 1]);
          }
    }
  }
}

template <class T, class Out>
void run_turns(const T* x, const T* w, Out* c, int m, int n, int k) {
  const CUtensorMap xs = tile_map(x, m, k, 128), ws = tile_map(w, n, k, 128);
  CUDA_CHECK(
      cudaFuncSetAttribute(product_turns<T, Out>, cudaFuncAttributeMaxDynamicSharedMemorySize, kTurnShared));
  const int tiles = ((m + 127) / 128) * ((n + 127) / 128);
  product_turns<T, Out><<<std::min(tiles, kMultiprocessors), 384, kTurnShared>>>(xs, ws, c, m, n, k);
  CUDA_CHECK(cudaGetLastError());
}

// --- few rows: a block takes 16 rows of w and all kRows rows of x; one producer warp, one consumer warp per
// 8 rows of x. Weights are the A operand of a 16 x 8 tile; k is never split. A stage is 128 k: two boxes of w
// and of x. ---
template <int kRows>
struct FewShape {
  static constexpr int kStageBytes = 2 * (16 + kRows) * 128;
  static constexpr int kBlocks = kRows <= 16 ? 2 : 1;  // per multiprocessor
  static constexpr int kStages = std::min(24, 208 * 1024 / kStageBytes / kBlocks);
  static constexpr int kWarps = kRows / 8;
  static constexpr int kShared = kStages * (kStageBytes + 16) + 1024;
};
__device__ inline void load_four(uint32_t (&r)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared)));
}

template <int kRows, class T>
__global__ void product_few(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
                            float* c, int m, int n, int k) {
  using S = FewShape<kRows>;
  extern __shared__ uint8_t raw[];
  uint8_t* ring = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t(1023));
  uint64_t* full = reinterpret_cast<uint64_t*>(ring + S::kStages * S::kStageBytes);
  uint64_t* empty = full + S::kStages;
  if (threadIdx.x == 0) {
    for (int s = 0; s < S::kStages; s++) barrier_init(full + s, 1), barrier_init(empty + s, S::kWarps);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = k / 128, tiles = n / 16;
  int step = 0;
  if (warp == S::kWarps) {
    if (lane != 0) return;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
      for (int s = 0; s < steps; s++, step++) {
        const int slot = step % S::kStages;
        barrier_wait(empty + slot, ((step / S::kStages) & 1) ^ 1);
        barrier_expect(full + slot, S::kStageBytes);
        uint8_t* stage = ring + slot * S::kStageBytes;
        for (int i = 0; i < 2; i++) {
          copy_tile(stage + i * 16 * 128, &w, full + slot, s * 128 + i * 64, tile * 16);
          copy_tile(stage + (2 * 16 + i * kRows) * 128, &x, full + slot, s * 128 + i * 64, 0);
        }
      }
    return;
  }
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    float d[4] = {0, 0, 0, 0};
    for (int s = 0; s < steps; s++, step++) {
      const int slot = step % S::kStages;
      barrier_wait(full + slot, (step / S::kStages) & 1);
      const uint8_t *weights = ring + slot * S::kStageBytes, *rows = weights + 2 * 16 * 128;
      uint32_t a[8][4], b[4][4];
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int r = lane % 16, chunk = (2 * (i % 4) + lane / 16) ^ (r & 7);
        load_four(a[i], weights + ((i / 4) * 16 + r) * 128 + chunk * 16);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int r = warp * 8 + lane % 8, chunk = (4 * (i % 2) + lane / 8) ^ (r & 7);
        load_four(b[i], rows + ((i / 2) * kRows + r) * 128 + chunk * 16);
      }
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const uint32_t pair[2] = {b[i / 2][i % 2 * 2], b[i / 2][i % 2 * 2 + 1]};
        mma_m16n8k16<T>(d, a[i], pair);
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + slot);
    }
    for (int i = 0; i < 4; i++) {
      const int column = tile * 16 + lane / 4 + (i / 2) * 8, row = warp * 8 + 2 * (lane % 4) + i % 2;
      if (row < m) c[size_t(row) * n + column] = d[i];
    }
  }
}

template <int kRows, class T>
void run_few(const T* x, const T* w, float* c, int m, int n, int k, cudaStream_t stream = nullptr) {
  using S = FewShape<kRows>;
  const CUtensorMap xs = tile_map(x, m, k, kRows), ws = tile_map(w, n, k, 16);
  CUDA_CHECK(
      cudaFuncSetAttribute(product_few<kRows, T>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kShared));
  const int blocks = std::min(n / 16, kMultiprocessors * S::kBlocks);
  product_few<kRows, T><<<blocks, 32 * (S::kWarps + 1), S::kShared, stream>>>(xs, ws, c, m, n, k);
  CUDA_CHECK(cudaGetLastError());
}
