// Quantizes activations to int8 in blocks of 64 k with the bits of cpu/isa/quant_rows.cpp: scale absmax / 127, values rounded
// once to nearest. A block with an infinity or a NaN gets the scale NaN, one with all magnitudes below 2^-100 becomes zero.
#include "kernels/cuda/quant_product.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u, kTiny = 0x0d800000u;  // 2^-100
constexpr float kRound = 0x1.8p23f;

// Four lanes quantize a block of a row; each has 16 values in the order of quant_form.cuh.
template <int kParts, bool kMins>
__global__ void quantize_kernel(const __grid_constant__ QuantRows a, int64_t blocks, int64_t padded_blocks, std::byte* to) {
  let_next_kernel_start();
  constexpr int kPart = kQuantBlock / kParts, kBytes = activation_bytes(kParts, kMins);
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, index = at / 4;
  const int lane = static_cast<int>(at % 4);
  const int64_t row = index / blocks, block = index % blocks, tile = row / kActivationRows;
  const int r = static_cast<int>(row % kActivationRows);
  wait_for_previous_kernel();
  const int64_t source = a.index && row < a.rows ? a.index[row] : row;
  const bool inside = row < a.rows && source >= 0;
  float v[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int64_t k = block * kQuantBlock + depth_of(kPart, lane, i), from = source * a.row_stride + k * a.k_stride;
    if (!inside || k >= a.k)
      v[i] = 0.0f;
    else
      v[i] = a.type == DType::kF32 ? static_cast<const float*>(a.x)[from] : widen(static_cast<const Bf16*>(a.x)[from]);
  }
  uint32_t max = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) max = ::max(max, __float_as_uint(v[i]) & 0x7fffffffu);
  max = ::max(max, __shfl_xor_sync(0xFFFFFFFFu, max, 1));
  max = ::max(max, __shfl_xor_sync(0xFFFFFFFFu, max, 2));
  const bool normal = max < kInfinity && max >= kTiny;
  const float magnitude = normal ? __uint_as_float(max) : 1.0f, inverse = normal ? 127.0f / magnitude : 0.0f;
  uint32_t words[4];
  int sums[kParts] = {};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    words[w] = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t q = normal ? __float_as_uint(fmaf(v[4 * w + j], inverse, kRound)) & 0xFF : 0;
      words[w] |= q << (8 * j);
      sums[w * kParts / 4] += static_cast<int8_t>(q);
    }
  }
  if constexpr (kMins) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      sums[p] += __shfl_xor_sync(0xFFFFFFFFu, sums[p], 1);
      sums[p] += __shfl_xor_sync(0xFFFFFFFFu, sums[p], 2);
    }
  }
  if (tile >= (a.rows + kActivationRows - 1) / kActivationRows) return;
  std::byte* record = to + (tile * padded_blocks + block) * kBytes;
  *reinterpret_cast<uint4*>(record + (r * 4 + lane) * 16) = make_uint4(words[0], words[1], words[2], words[3]);
  if (lane != 0) return;
  const float special = max >= kInfinity ? __uint_as_float(0x7fc00000u) : 0.0f;
  auto* numbers = reinterpret_cast<float*>(record + kActivationValues);
  numbers[r] = normal ? magnitude / 127.0f / static_cast<float>(a.unit) : special;
  if constexpr (kMins)
#pragma unroll
    for (int p = 0; p < kParts; ++p) numbers[kActivationRows * (1 + p) + r] = static_cast<float>(sums[p] * a.unit);
}

}  // namespace

void quantize_rows(cudaStream_t stream, const QuantRows& a, std::byte* to) {
  constexpr unsigned kThreadsPerBlock = 64;
  const int64_t blocks = (a.k + kQuantBlock - 1) / kQuantBlock, padded = groups_of(a.k) * kGroupBlocks;
  const int64_t rows = (a.rows + kActivationRows - 1) / kActivationRows * kActivationRows;
  const dim3 grid(static_cast<unsigned>((rows * blocks * 4 + kThreadsPerBlock - 1) / kThreadsPerBlock));
  const auto run = [&](auto kernel) { launch_early(stream, grid, kThreadsPerBlock, 0, kernel, a, blocks, padded, to); };
  if (a.parts == 2) return a.mins ? run(quantize_kernel<2, true>) : run(quantize_kernel<2, false>);
  a.mins ? run(quantize_kernel<4, true>) : run(quantize_kernel<4, false>);
}

}  // namespace makar::kernels::cuda
