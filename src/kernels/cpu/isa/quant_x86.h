// Operations shared by quant_avx2.h and quant_avx512.h.
#pragma once

namespace makar::kernels::MAKAR_ISA {

constexpr int32_t kSeed = 0x4B400000;  // the bits of 1.5 * 2^23

// The initial value of an integer sum; `start` is read if the weights have a bias.
template <Signs S>
inline Ints first_ints(const int32_t* start) {
  return all_ints(kQuantInitialSums && S == Signs::kSigned ? *start : kSeed);
}
inline Ints first_plain(const int32_t* start) { return all_ints(kQuantInitialSums ? *start : 0); }

struct TwoFloats {
  Floats low, high;
};
// The same roundings as the other instruction sets, including infinities and signs of zero.
inline TwoFloats scaled_bytes(const std::byte* p, Floats d) {
  const Floats base = mul(d, all_floats(-0x1p23f));
  return {fma(column_bytes(p, 1 << 23), d, base), fma(column_bytes(p + kQuantCols, 1 << 23), d, base)};
}
inline TwoFloats scaled_biased_bytes(const std::byte* p, Floats d) {
  return {mul(column_bytes(p, -128), d), mul(column_bytes(p + kQuantCols, -128), d)};
}

}  // namespace makar::kernels::MAKAR_ISA
