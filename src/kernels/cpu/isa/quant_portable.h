// Four columns in plain C++: the same integers and the same roundings as the vector code.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/isa/gemm_tiles.h"

namespace makar::kernels::MAKAR_ISA {

constexpr int kQuantCols = 4;
constexpr bool kQuantInitialSums = false;

struct Bytes {
  int8_t v[16];
};
using Row = Bytes;     // 16 activations
using Factor = Bytes;  // weights, ready for dot()
struct Ints {
  int32_t v[4];
};
struct Floats {
  float v[4];
};

template <class Each>
inline Bytes each_byte(const Each& value) {
  Bytes out;
  for (int i = 0; i < 16; ++i) out.v[i] = static_cast<int8_t>(value(i));
  return out;
}
template <class Each>
inline Floats each_float(const Each& value) {
  Floats out;
  for (int i = 0; i < 4; ++i) out.v[i] = value(i);
  return out;
}

template <Signs S>
inline Ints first_ints(const int32_t*) {
  return {};
}
inline Floats to_floats(Ints x) {
  return each_float([&](int i) { return static_cast<float>(x.v[i]); });
}

// 1.5 * 2^23 + x.
inline Floats seed_plus(Ints x) {
  return each_float([&](int i) { return static_cast<float>(x.v[i] + (3 << 22)); });
}

inline Ints first_plain(const int32_t*) { return {}; }
inline Ints times_256(Ints x) {
  for (int32_t& v : x.v) v *= 256;
  return x;
}
inline Ints sum(Ints a, Ints b) {
  for (int i = 0; i < 4; ++i) a.v[i] += b.v[i];
  return a;
}

inline Bytes load_bytes(const std::byte* p) {
  Bytes x;
  std::memcpy(x.v, p, 16);
  return x;
}
inline void store_bytes(std::byte* p, Bytes x) { std::memcpy(p, x.v, 16); }
inline Row load_row(const std::byte* p) { return load_bytes(p); }
inline Bytes load_codebook(const int8_t* p) { return load_bytes(reinterpret_cast<const std::byte*>(p)); }
template <Signs S>
inline Factor factor(Bytes w) {
  return w;
}
template <int L, Signs S>
inline Ints dot(Ints x, const Factor& w, const Row& a) {
  for (int c = 0; c < 4; ++c)
    for (int j = 0; j < 4; ++j) x.v[c] += w.v[c * 4 + j] * a.v[L * 4 + j];
  return x;
}

template <int N>
inline Bytes positions_of(Bytes packed) {
  return each_byte(
      [&](int i) { return (static_cast<uint8_t>(packed.v[i]) >> (2 * N) & 3) + i % 4 / 2 * 4 + N % 2 * 8; });
}
inline Ints dot_at(Ints x, const Bytes& w, const Bytes& at, const Row& a) {
  for (int i = 0; i < 16; ++i) x.v[i / 4] += w.v[i] * a.v[at.v[i]];
  return x;
}

inline Bytes low_nibbles_16(Bytes w) {
  return each_byte([&](int i) { return static_cast<uint8_t>(w.v[i]) << 4; });
}
inline Bytes high_nibbles_16(Bytes w) {
  return each_byte([&](int i) { return w.v[i] & 0xf0; });
}
inline Bytes low_nibbles(Bytes w) {
  return each_byte([&](int i) { return w.v[i] & 15; });
}
inline Bytes high_nibbles(Bytes w) {
  return each_byte([&](int i) { return static_cast<uint8_t>(w.v[i]) >> 4; });
}
template <int At>
inline Bytes two_bits(Bytes w) {
  return each_byte([&](int i) { return static_cast<uint8_t>(w.v[i]) >> At << 4 & 0x30; });
}
inline Bytes look_up(Bytes codebook, Bytes index) {
  return each_byte([&](int i) { return codebook.v[index.v[i]]; });
}
inline Bytes upper_six(Bytes w) {
  return each_byte([&](int i) { return w.v[i] & 0xfc; });
}
inline Bytes gather_six(Bytes a, Bytes b, Bytes c) {
  return each_byte([&](int i) { return (a.v[i] & 3) << 6 | (b.v[i] & 3) << 4 | (c.v[i] & 3) << 2; });
}

inline Floats zero_floats() { return {}; }
inline Floats load_floats(const float* p) {
  Floats x;
  std::memcpy(x.v, p, 16);
  return x;
}
inline void store_floats(float* p, Floats x) { std::memcpy(p, x.v, 16); }
inline Floats all_floats(float x) {
  return each_float([&](int) { return x; });
}
inline Floats add(Floats a, Floats b) {
  return each_float([&](int i) { return a.v[i] + b.v[i]; });
}
inline Floats mul(Floats a, Floats b) {
  return each_float([&](int i) { return a.v[i] * b.v[i]; });
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return each_float([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
inline Floats fma(Floats a, float b, Floats c) {
  return each_float([&](int i) { return std::fma(a.v[i], b, c.v[i]); });
}
inline Floats load_halves(const std::byte* p) {
  uint16_t bits[4];
  std::memcpy(bits, p, 8);
  return each_float([&](int i) { return widen(F16{bits[i]}); });
}

struct TwoFloats {
  Floats low, high;
};
// The same roundings as the vector code, including infinities and signs of zero.
inline TwoFloats scaled_bytes(const std::byte* p, Floats d) {
  const auto product = [&](int byte, int c) {
    return std::fma(0x1p23f + static_cast<float>(p[byte]), d.v[c], d.v[c] * -0x1p23f);
  };
  return {each_float([&](int c) { return product(c, c); }),
          each_float([&](int c) { return product(4 + c, c); })};
}
inline TwoFloats scaled_biased_bytes(const std::byte* p, Floats d) {
  const auto product = [&](int byte, int c) {
    return static_cast<float>(static_cast<int>(p[byte]) - 128) * d.v[c];
  };
  return {each_float([&](int c) { return product(c, c); }),
          each_float([&](int c) { return product(4 + c, c); })};
}

}  // namespace makar::kernels::MAKAR_ISA
