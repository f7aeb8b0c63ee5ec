// Weights of GGUF's block types on the GPU: without loss, in the order in which tensor cores read them.
//
// 16 weight rows (a tile) by 256 k (a group of four blocks of 64) are contiguous: values, then scales. A lane of a warp reads
// its values of a block at once: for the parts of the block in order (16 or 32 k that share a scale), the same 4 or 8 k of
// every part. Activations have the same order. Integer sums are exact, so the order within a part changes no bit.
#pragma once
#include <cuda_fp16.h>

#include "kernels/cpu/quant_form.h"
#include "kernels/cpu/quant_split.h"
#include "kernels/cuda/bf16.cuh"

namespace makar::kernels::cuda {

constexpr int kQuantTileRows = 16, kGroupBlocks = 4, kGroupDepth = kGroupBlocks * kQuantBlock;

struct CudaForm {
  int bits;       // 8 or 4
  bool times_16;  // 4 bits are read as 16 times the value, with the sign of the highest one
  int part;       // k that share a scale: 16 or 32
  bool mins;
  bool super;  // one f16 per row and group with a byte per part, instead of one f16 per part

  constexpr bool operator==(const CudaForm&) const = default;
};
inline constexpr CudaForm kCudaForms[] = {
    {8, false, 32, false, false},  // Q8_0, Q5_0, Q8_24, IQ4_NL
    {4, true, 32, false, false},   // Q4_0
    {4, false, 32, true, false},   // Q4_1
    {8, false, 32, true, false},   // Q5_1
    {4, false, 32, true, true},    // Q4_K
    {8, false, 16, false, true},   // Q6_K
    {8, false, 32, true, true},    // Q5_K
    {8, false, 32, false, true},   // IQ4_XS, IQ2_XXS
    {4, true, 16, false, true},    // Q3_K
    {4, true, 16, true, true},     // Q2_K
};
constexpr int kCudaFormCount = sizeof kCudaForms / sizeof kCudaForms[0];

// Sizes in bytes: the values of a block, the scales of parts of one kind (scales, mins) in a group, a whole group. Scales follow the
// values of a group; half: [kinds][16 rows][4 blocks][parts] f16; super: [kinds][16 rows] f16, [kinds][16 rows][4 blocks][parts] bytes.
constexpr int parts_of(const CudaForm& f) { return kQuantBlock / f.part; }
constexpr int kinds_of(const CudaForm& f) { return f.mins ? 2 : 1; }
constexpr int value_bytes(const CudaForm& f) { return kQuantTileRows * kQuantBlock * f.bits / 8; }
constexpr int kind_bytes(const CudaForm& f) { return kQuantTileRows * kGroupBlocks * parts_of(f) * (f.super ? 1 : 2); }
constexpr int group_bytes(const CudaForm& f) {
  return kGroupBlocks * value_bytes(f) + kinds_of(f) * (kind_bytes(f) + (f.super ? 2 * kQuantTileRows : 0));
}

template <int kForm>
struct FormOf {
  static constexpr CudaForm F = kCudaForms[kForm];
  static constexpr int kParts = parts_of(F), kKinds = kinds_of(F), kValueBytes = value_bytes(F);
  static constexpr int kScales = kGroupBlocks * kValueBytes;  // where the scales begin
  static constexpr int kKindBytes = kind_bytes(F), kGroupBytes = group_bytes(F);
  static_assert(kGroupBytes % 32 == 0);
};

// The form of a block type; -1: none. Units are the CPU's (quant_split.h), so sums have its bits.
inline int cuda_form_of(DType type) {
  if (!is_block(type) || type == DType::kF16_64) return -1;
  const QuantForm& f = kQuantForms[storage_of(type).form];
  const bool signed4 = f.values == QuantValues::kSigned4 || f.values == QuantValues::kUnsigned2;
  const bool four = signed4 || f.values == QuantValues::kUnsigned4;
  const CudaForm want{four ? 4 : 8, signed4, f.part, f.mins, f.scales == QuantScales::kSuper};
  for (int i = 0; i < kCudaFormCount; ++i)
    if (kCudaForms[i] == want) return i;
  return -1;
}
inline int64_t groups_of(int64_t k) { return (k + kGroupDepth - 1) / kGroupDepth; }
inline size_t quant_bytes(DType type, int64_t n, int64_t k) {
  const int64_t tiles = (n + kQuantTileRows - 1) / kQuantTileRows;
  return static_cast<size_t>(tiles * groups_of(k) * group_bytes(kCudaForms[cuda_form_of(type)]));
}

// Activations: for 8 rows (a tile) and a block, int8 [8 rows][4 lanes][16], scales f32 [8], and for forms with mins the sums
// of the parts f32 [parts][8]. k is padded to whole groups, which are not computed.
constexpr int kActivationRows = 8, kActivationValues = kActivationRows * kQuantBlock;
constexpr int activation_bytes(int parts, bool mins) { return kActivationValues + 32 + (mins ? 32 * parts : 0); }

// Where value i (0..15) of a lane is within a block of 64: parts in order, `lane` (0..3) has the same share of each.
__host__ __device__ constexpr int depth_of(int part, int lane, int i) {
  const int share = part / 4;
  return i / share * part + lane * share + i % share;
}

// The scales of two weight rows in a block, as stored: of each kind, those of the parts and, with super scales, their factor.
template <int kForm>
struct StoredScales {
  using F = FormOf<kForm>;
  static constexpr int kBytes = F::kParts * (F::F.super ? 1 : 2);  // of a block
  uint32_t parts[F::kKinds][2];
  uint16_t factor[F::kKinds][2];

  static __device__ const std::byte* parts_at(const std::byte* group, int kind, int row) {
    return group + F::kScales + (F::F.super ? F::kKinds * 2 * kQuantTileRows : 0) + kind * F::kKindBytes + row * kGroupBlocks * kBytes;
  }
  __device__ void load_factor(const std::byte* group, int kind, int half, int row) {
    if constexpr (F::F.super)
      factor[kind][half] = *reinterpret_cast<const uint16_t*>(group + F::kScales + (kind * kQuantTileRows + row + 8 * half) * 2);
  }
  // `row`: the first one's, 0..7; the second one is 8 rows later.
  __device__ void load(const std::byte* group, int block, int row) {
#pragma unroll
    for (int kind = 0; kind < F::kKinds; ++kind)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_factor(group, kind, half, row);
        const std::byte* from = parts_at(group, kind, row + 8 * half) + block * kBytes;
        if constexpr (kBytes == 4)
          parts[kind][half] = *reinterpret_cast<const uint32_t*>(from);
        else
          parts[kind][half] = *reinterpret_cast<const uint16_t*>(from);
      }
  }
  // With the CPU's roundings (quant_portable.h), including infinities and signs of zero.
  __device__ float number(int kind, int half, int part) const {
    const uint32_t bits = parts[kind][half];
    if constexpr (!F::F.super) {
      return __half2float(__ushort_as_half(static_cast<uint16_t>(part ? bits >> 16 : bits)));
    } else {
      const float d = __half2float(__ushort_as_half(factor[kind][half]));
      const float byte = __uint_as_float(__byte_perm(bits, 0x4B000000u, 0x7540u + part));  // 2^23 + byte
      return F::F.mins ? fmaf(byte, d, d * -0x1p23f) : (byte - (0x1p23f + 128.0f)) * d;
    }
  }
};

// The same for a whole group, loaded at once.
template <int kForm>
struct GroupScales {
  using Stored = StoredScales<kForm>;
  using F = FormOf<kForm>;
  static constexpr int kWords = kGroupBlocks * Stored::kBytes / 4;
  uint32_t words[F::kKinds][2][kWords];
  Stored first;  // only its factors

  __device__ void load(const std::byte* group, int row) {
#pragma unroll
    for (int kind = 0; kind < F::kKinds; ++kind)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        first.load_factor(group, kind, half, row);
        const std::byte* from = Stored::parts_at(group, kind, row + 8 * half);
        uint32_t(&to)[kWords] = words[kind][half];
        if constexpr (kWords == 4) {
          const uint4 v = *reinterpret_cast<const uint4*>(from);
          to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
        } else {
          const uint2 v = *reinterpret_cast<const uint2*>(from);
          to[0] = v.x, to[1] = v.y;
        }
      }
  }
  // `block` is a constant once loops are unrolled.
  __device__ Stored of(int block) const {
    Stored out = first;
#pragma unroll
    for (int kind = 0; kind < F::kKinds; ++kind)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        out.parts[kind][half] = kWords == 4 ? words[kind][half][block] : words[kind][half][block / 2] >> (block % 2 * 16);
    return out;
  }
};

// The scales and mins of a block for two weight rows, and -1.5 * 2^23 times the sum of the scales.
template <int kForm>
struct BlockScales {
  using F = FormOf<kForm>;
  float scale[2][F::kParts], min[2][F::F.mins ? F::kParts : 1], base[2];

  __device__ explicit BlockScales(const StoredScales<kForm>& stored) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int p = 0; p < F::kParts; ++p) {
        scale[half][p] = stored.number(0, half, p);
        if constexpr (F::F.mins) min[half][p] = stored.number(1, half, p);
      }
      float sum = scale[half][0];
#pragma unroll
      for (int p = 1; p < F::kParts; ++p) sum += scale[half][p];
      base[half] = sum * -0x1.8p23f;
    }
  }
};

// A lane's values of a block for two weight rows: words of four k, for the parts in order.
template <int kForm>
struct BlockValues {
  using F = FormOf<kForm>;
  uint4 stored[F::F.bits / 4];

  __device__ void load(const std::byte* group, int block, int lane) {
    const std::byte* at = group + block * F::kValueBytes + lane * 16;
#pragma unroll
    for (int i = 0; i < F::F.bits / 4; ++i) stored[i] = *reinterpret_cast<const uint4*>(at + i * 512);
  }
  // Word i (0..3) of row half (0, 1).
  __device__ uint32_t word(int half, int i) const {
    const auto pick = [](const uint4& v, int at) { return at == 0 ? v.x : at == 1 ? v.y : at == 2 ? v.z : v.w; };
    if constexpr (F::F.bits == 8) {
      return pick(stored[half], i);
    } else {
      const uint32_t two = pick(stored[0], half * 2 + i / 2);
      if constexpr (F::F.times_16) return (i % 2 ? two : two << 4) & 0xF0F0F0F0u;
      return (i % 2 ? two >> 4 : two) & 0x0F0F0F0Fu;
    }
  }
};

constexpr int kSeed = 0x4B400000;  // the bits of 1.5 * 2^23

// The integer sums of part p, 16 weight rows by 8 rows of activations, from the bits of 1.5 * 2^23.
template <int kForm>
__device__ inline void part_sums(const BlockValues<kForm>& w, const uint4& a, int p, int (&d)[4]) {
  const auto word = [&](int i) { return i == 0 ? a.x : i == 1 ? a.y : i == 2 ? a.z : a.w; };
  if constexpr (FormOf<kForm>::kParts == 2)
    mma_int8(d, w.word(0, 2 * p), w.word(1, 2 * p), w.word(0, 2 * p + 1), w.word(1, 2 * p + 1), word(2 * p), word(2 * p + 1), kSeed);
  else
    mma_int8(d, w.word(0, p), w.word(1, p), word(p), kSeed);
}

// The sums of a block in f32, before the activations' scales: t of isa/quant.cpp, for the rows of a lane (d[0], d[1]: the first
// weight row; `sums`: of the parts, for two rows of activations).
template <int kForm>
__device__ inline void block_sums(const BlockValues<kForm>& w, const BlockScales<kForm>& s, const uint4& a, const float2* sums,
                                  float (&t)[4]) {
  using F = FormOf<kForm>;
#pragma unroll
  for (int p = 0; p < F::kParts; ++p) {
    int d[4];
    part_sums<kForm>(w, a, p, d);
#pragma unroll
    for (int e = 0; e < 4; ++e) t[e] = fmaf(__int_as_float(d[e]), s.scale[e / 2][p], p == 0 ? s.base[e / 2] : t[e]);
  }
  if constexpr (F::F.mins)
#pragma unroll
    for (int p = 0; p < F::kParts; ++p)
#pragma unroll
      for (int e = 0; e < 4; ++e) t[e] = fmaf(s.min[e / 2][p], e % 2 ? sums[p].y : sums[p].x, t[e]);
}

// Calls body with the form as a constant.
template <class Body>
void with_form(int form, Body&& body) {
  switch (form) {
#define MAKAR_FORM(i) \
  case i:             \
    return body(std::integral_constant<int, i>());
    MAKAR_FORM(0)
    MAKAR_FORM(1)
    MAKAR_FORM(2)
    MAKAR_FORM(3)
    MAKAR_FORM(4)
    MAKAR_FORM(5)
    MAKAR_FORM(6)
    MAKAR_FORM(7)
    MAKAR_FORM(8)
    MAKAR_FORM(9)
#undef MAKAR_FORM
  }
}

}  // namespace makar::kernels::cuda
