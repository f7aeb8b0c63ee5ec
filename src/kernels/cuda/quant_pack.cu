// Block types on the GPU: packing for products (quant_form.cuh), and decoding to f32 with the bits of decode_blocks.
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/cuda_weight.cuh"
#include "kernels/cuda/quant_form.cuh"
#include "kernels/cuda/quant_product.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

// What the kernels know of a block type at run time.
struct BlockType {
  DType type;
  int elements, bytes;  // of a block
  int unit;             // the products read a weight times this factor
  bool book, six;       // values are indices into `values`; values have six bits: products read 4 times the value
  bool scales, mins;    // of parts
  int part;
  int8_t values[16];
};
BlockType describe(DType type) {
  const QuantStorage storage = storage_of(type);
  const QuantForm& f = kQuantForms[storage.form];
  BlockType t{};
  t.type = type, t.elements = static_cast<int>(layout_of(type).elements), t.bytes = static_cast<int>(layout_of(type).bytes);
  t.unit = storage.unit, t.book = f.values == QuantValues::kCodebook4, t.six = f.values == QuantValues::kInt6;
  t.scales = f.scales == QuantScales::kSuper, t.mins = f.mins, t.part = f.part;
  std::copy_n(storage.codebook, 16, t.values);
  return t;
}

__device__ void split_at(DType type, const std::byte* block, SplitBlock& out) {
  switch (type) {
#define MAKAR_BLOCK(name) \
  case DType::k##name:    \
    return split(*reinterpret_cast<const Block##name*>(block), out);
    MAKAR_BLOCK(Q4_0)
    MAKAR_BLOCK(Q4_1)
    MAKAR_BLOCK(Q5_0)
    MAKAR_BLOCK(Q5_1)
    MAKAR_BLOCK(Q8_0)
    MAKAR_BLOCK(Q8_24)
    MAKAR_BLOCK(Q2_K)
    MAKAR_BLOCK(Q3_K)
    MAKAR_BLOCK(Q4_K)
    MAKAR_BLOCK(Q5_K)
    MAKAR_BLOCK(Q6_K)
    MAKAR_BLOCK(IQ4_NL)
    MAKAR_BLOCK(IQ4_XS)
    MAKAR_BLOCK(IQ2_XXS)
#undef MAKAR_BLOCK
    default:
      return;
  }
}

// Block `i` of `x` to f32: scale * q, + min of its part.
__device__ void decode_block(const BlockType& t, const std::byte* x, float* y) {
  SplitBlock b;
  split_at(t.type, x, b);
  const auto half = [](uint16_t bits) { return __half2float(__ushort_as_half(bits)); };
  // Types without scales of parts have one block per part. IQ2_XXS stores 8 times the scale.
  const float d = half(b.d), min = t.mins ? half(b.min) : 0.0f;
  for (int i = 0; i < t.elements; ++i) {
    const int p = t.scales ? i / t.part : 0;
    float scale = d;
    if (t.scales) scale = d * static_cast<float>(t.mins ? b.scales[p] : b.scales[p] - kScaleBias);
    if (t.scales && t.unit == 8) scale *= 0.125f;
    const float q = static_cast<float>(t.book ? t.values[b.q[i]] : b.q[i]);
    const float product = scale * q;
    y[i] = !t.mins ? product : product + (t.scales ? min * static_cast<float>(b.part_mins[p]) : min);
  }
}

// One thread packs one row of a group.
__global__ void pack_kernel(const __grid_constant__ BlockType t, CudaForm f, const std::byte* x, int64_t n, int64_t k, std::byte* to) {
  const int64_t groups = (k + kGroupDepth - 1) / kGroupDepth, at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = at / groups, g = at % groups, tile = row / kQuantTileRows;
  if (tile >= (n + kQuantTileRows - 1) / kQuantTileRows) return;
  const int r = static_cast<int>(row % kQuantTileRows), parts = parts_of(f), kinds = kinds_of(f);
  std::byte* group = to + (tile * groups + g) * group_bytes(f);
  std::byte* scales = group + kGroupBlocks * value_bytes(f);

  SplitBlock b;
  int8_t q[kGroupDepth];
  for (int64_t first = 0; first < kGroupDepth; first += t.elements) {
    const int64_t k0 = g * kGroupDepth + first;
    const bool inside = row < n && k0 < k;
    if (inside)
      split_at(t.type, x + (row * k + k0) / t.elements * t.bytes, b);
    else
      memset(&b, 0, sizeof b);
    for (int i = 0; i < t.elements; ++i) {
      const int v = !inside ? 0 : t.book ? t.values[b.q[i]] : b.q[i];
      q[first + i] = static_cast<int8_t>(t.six ? 4 * v : v);
    }
    if (!f.super) {  // a block of 32 is a part
      const int64_t part = first / f.part;
      for (int kind = 0; kind < kinds; ++kind)
        *reinterpret_cast<uint16_t*>(scales + kind * kind_bytes(f) + (r * kGroupBlocks * parts + part) * 2) = kind ? b.min : b.d;
    } else {
      for (int kind = 0; kind < kinds; ++kind) {
        *reinterpret_cast<uint16_t*>(scales + (kind * kQuantTileRows + r) * 2) = kind ? b.min : b.d;
        std::byte* bytes = scales + kinds * 2 * kQuantTileRows + kind * kind_bytes(f) + r * kGroupBlocks * parts;
        for (int p = 0; p < kGroupBlocks * parts; ++p) bytes[p] = std::byte{kind ? b.part_mins[p] : b.scales[p]};
      }
    }
  }
  for (int block = 0; block < kGroupBlocks; ++block)
    for (int lane = 0; lane < 4; ++lane) {
      const auto value = [&](int i) { return static_cast<uint8_t>(q[block * kQuantBlock + depth_of(f.part, lane, i)]); };
      std::byte* values = group + block * value_bytes(f) + ((r % 8) * 4 + lane) * 16;
      if (f.bits == 8) {
        for (int i = 0; i < 16; ++i) values[r / 8 * 512 + i] = std::byte{value(i)};
      } else {
        for (int i = 0; i < 8; ++i) {  // of a word of 8 values: the first four in the low bits
          const int low = i / 4 * 8 + i % 4;
          values[r / 8 * 8 + i] = std::byte{static_cast<uint8_t>((value(low) & 15) | value(low + 4) << 4)};
        }
      }
    }
}

__global__ void decode_kernel(const __grid_constant__ BlockType t, const std::byte* x, float* y, int64_t blocks) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < blocks) decode_block(t, x + i * t.bytes, y + i * t.elements);
}
__global__ void embed_kernel(const __grid_constant__ BlockType t, const std::byte* table, const int64_t* ids, float* y,
                             int64_t blocks, int64_t per_row) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < blocks) decode_block(t, table + (ids[i / per_row] * per_row + i % per_row) * t.bytes, y + i * t.elements);
}
constexpr int kPackThreads = 128;
unsigned grid_of(int64_t threads) { return static_cast<unsigned>((threads + kPackThreads - 1) / kPackThreads); }

}  // namespace

void kernels::cuda::pack_blocks(cudaStream_t stream, DType type, const std::byte* x, int64_t n, int64_t k, std::byte* to) {
  const CudaForm& f = kCudaForms[cuda_form_of(type)];
  const int64_t threads = (n + kQuantTileRows - 1) / kQuantTileRows * kQuantTileRows * groups_of(k);
  launch(stream, grid_of(threads), kPackThreads, 0, pack_kernel, describe(type), f, x, n, k, to);
}
void kernels::cuda::decode_block_rows(cudaStream_t stream, DType type, const std::byte* x, float* y, int64_t count) {
  const int64_t blocks = count / layout_of(type).elements;
  if (blocks <= 0) return;
  launch(stream, grid_of(blocks), kPackThreads, 0, decode_kernel, describe(type), x, y, blocks);
}
void kernels::cuda::embed_blocks(cudaStream_t stream, const Embed& a) {
  const int64_t per_row = a.width / layout_of(a.type).elements, blocks = a.count * per_row;
  if (blocks <= 0) return;
  launch(stream, grid_of(blocks), kPackThreads, 0, embed_kernel, describe(a.type),
         static_cast<const std::byte*>(a.table), a.ids, a.y, blocks, per_row);
}

}  // namespace makar
