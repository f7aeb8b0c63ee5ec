// Pure multiply-add loops: an upper bound for every kernel on this machine.
#include <cmath>

#include "kernels/cpu/isa/sections.h"
#if defined(MAKAR_ISA_neon)
#include <arm_neon.h>
#elif defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avx512)
#include "kernels/cpu/isa/gemm_x86.h"
#endif

namespace makar::kernels::MAKAR_ISA {
namespace {

// A vector of floats; opaque() returns one whose value the compiler does not know.
#if defined(MAKAR_ISA_neon)
using Lanes = float32x4_t;
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return vfmaq_f32(c, a, b); }
inline Lanes opaque(float x) {
  Lanes v = vdupq_n_f32(x);
  asm volatile("" : "+w"(v));
  return v;
}
#elif defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avx512)
using Lanes = Vec;
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return fma(a, b, c); }
inline Lanes opaque(float x) {
  Lanes v = broadcast(&x);
  asm volatile("" : "+x"(v));
  return v;
}
#else
using Lanes = float;
inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return std::fma(a, b, c); }
inline Lanes opaque(float x) {
  volatile float v = x;
  return v;
}
#endif

// Enough independent sums to hide the FMA latency of all known cores, few enough for their registers.
constexpr int kSums = 12;

double peak_f32(int64_t loops) {
  Lanes sums[kSums];
  for (Lanes& s : sums) s = opaque(0.0f);
  const Lanes a = opaque(0.5f), b = opaque(0.25f);
  for (int64_t i = 0; i < loops; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kSums; ++j) sums[j] = multiply_add(a, b, sums[j]);
  }
  Lanes total = sums[0];
  for (int j = 1; j < kSums; ++j) total = multiply_add(total, a, sums[j]);
  volatile Lanes sink = total;
  static_cast<void>(sink);
  return 2.0 * kSums * (sizeof(Lanes) / sizeof(float)) * static_cast<double>(loops);
}

}  // namespace

void fill_limits(Table& table) { table.peak_f32 = peak_f32; }

}  // namespace makar::kernels::MAKAR_ISA
