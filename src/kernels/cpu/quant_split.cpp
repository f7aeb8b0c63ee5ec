#include "kernels/cpu/quant_split.h"

#include <bit>

#include "base/error.h"
#include "kernels/cpu/quant_form.h"

namespace makar::kernels {
namespace {

// 64 weights as integers with one power-of-two scale: weights of at least 1/16 of the largest keep all bits;
// the others lose the bits below 2^-16 of the largest. High bytes first, then low ones.
void split(const BlockF16_64& b, SplitBlock& o) {
  constexpr int kCount = 64, kMax = 127 * 256 + 127;
  uint16_t bits[kCount];
  std::memcpy(bits, b.values, sizeof bits);
  uint16_t max = 0;
  for (const uint16_t w : bits) max = std::max<uint16_t>(max, w & 0x7fffu);
  std::memset(o.q, 0, 2 * kCount);
  if (max >= 0x7c00u || max == 0) {  // an infinity or a NaN must propagate to the result
    o.d = max ? 0x7e00u : 0;
    return;
  }
  const int exponent = std::max(max >> 10, 1);  // 2^(exponent - 15) <= the largest, unless it is subnormal
  const int largest = ((max & 1023) | (max >= 1024 ? 1024 : 0)) << 4;
  const int shift_bits = largest > kMax ? 13 : 14;
  const float scale = std::bit_cast<float>(static_cast<uint32_t>(127 + shift_bits + 15 - exponent) << 23);
  for (int i = 0; i < kCount; ++i) {
    const uint32_t w = bits[i];
    const float small = std::bit_cast<float>((w & 0x7fffu) << 13 | (w & 0x8000u) << 16);  // w 2^-112
    const uint32_t v = std::bit_cast<uint32_t>(small * 0x1p112f * scale + 0x1.8p23f);
    o.q[i] = static_cast<int8_t>((v + 128) >> 8);
    o.q[kCount + i] = static_cast<int8_t>(v);
  }
  o.d = to_f16(std::bit_cast<float>(static_cast<uint32_t>(127 - shift_bits - 15 + exponent + 12) << 23));
}

template <class Block>
void split_as(const void* block, SplitBlock& out) {
  split(*static_cast<const Block*>(block), out);
}

}  // namespace

SplitBlockFn split_block_of(DType type) {
  switch (type) {
    case DType::kQ4_0:
      return split_as<BlockQ4_0>;
    case DType::kQ4_1:
      return split_as<BlockQ4_1>;
    case DType::kQ5_0:
      return split_as<BlockQ5_0>;
    case DType::kQ5_1:
      return split_as<BlockQ5_1>;
    case DType::kQ8_0:
      return split_as<BlockQ8_0>;
    case DType::kQ8_24:
      return split_as<BlockQ8_24>;
    case DType::kQ2_K:
      return split_as<BlockQ2_K>;
    case DType::kQ3_K:
      return split_as<BlockQ3_K>;
    case DType::kQ4_K:
      return split_as<BlockQ4_K>;
    case DType::kQ5_K:
      return split_as<BlockQ5_K>;
    case DType::kQ6_K:
      return split_as<BlockQ6_K>;
    case DType::kIQ4_NL:
      return split_as<BlockIQ4_NL>;
    case DType::kIQ4_XS:
      return split_as<BlockIQ4_XS>;
    case DType::kIQ2_XXS:
      return split_as<BlockIQ2_XXS>;
    case DType::kF16_64:
      return split_as<BlockF16_64>;
    default:
      check(false, "not a block type: " + name(type));
  }
  return nullptr;
}

QuantStorage storage_of(DType type) {
  const auto storage = [](int form) { return QuantStorage{form, unit_of(kQuantForms[form]), kIq4Values}; };
  switch (type) {
    case DType::kQ4_0:
      return storage(kFormSigned4);
    case DType::kQ4_1:
      return storage(kFormUnsigned4Min);
    case DType::kQ5_0:
      return storage(kFormInt6);
    case DType::kQ5_1:
      return storage(kFormInt6Min);
    case DType::kQ8_0:
      return storage(kFormInt8);
    case DType::kQ8_24:
      return storage(kFormSparse8);
    case DType::kQ2_K:
      return storage(kFormSuperUnsigned2Min16);
    case DType::kQ3_K:
      return storage(kFormSuperSigned4);
    case DType::kQ4_K:
      return storage(kFormSuperUnsigned4Min);
    case DType::kQ5_K:
      return storage(kFormSuperInt6Min);
    case DType::kQ6_K:
      return storage(kFormSuperInt8);
    case DType::kIQ4_NL:
      return storage(kFormBook4);
    case DType::kIQ4_XS:
      return storage(kFormSuperBook4);
    case DType::kF16_64:
      return storage(kFormInt16);
    case DType::kIQ2_XXS:
      return {kFormSuperBook4, 8, kIq2Book};
    default:
      check(false, "not a block type: " + name(type));
  }
  return {};
}

}  // namespace makar::kernels
