// A loop of 8-bit dot products alone: an upper bound for products of quantized weights.
#include "kernels/cpu/isa/sections.h"
#if defined(MAKAR_ISA_neon) || defined(MAKAR_ISA_avxvnni) || defined(MAKAR_ISA_avx512vnni)
#include "kernels/cpu/isa/quant_parts.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// Enough independent sums to hide the latency of all known cores, few enough for their registers.
constexpr int kSums = 12;

// Makes a value unknown to the compiler, so that it is not constant-folded.
template <class T>
inline void hide(T& x) {
#if defined(MAKAR_ISA_neon)
  asm volatile("" : "+w"(x));
#else
  asm volatile("" : "+v"(x));
#endif
}

double peak_int8(int64_t loops) {
  alignas(64) static constexpr int8_t kOnes[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto* ones = reinterpret_cast<const std::byte*>(kOnes);
  Ints sums[kSums];
  for (Ints& s : sums) s = Ints();
  Factor w = factor<Signs::kUnsigned>(load_bytes(ones));
  hide(w);
#if defined(MAKAR_ISA_neon)
  const Row row = load_row(ones);
#endif
  for (int64_t i = 0; i < loops; ++i) {
    MAKAR_UNROLLED
    for (int j = 0; j < kSums; ++j) {
#if defined(MAKAR_ISA_neon)
      sums[j] = dot<0, Signs::kUnsigned>(sums[j], w, row);
#elif defined(MAKAR_ISA_avxvnni)
      sums[j] = _mm256_dpbusd_avx_epi32(sums[j], w, w);
#else
      sums[j] = _mm512_dpbusd_epi32(sums[j], w, w);
#endif
    }
  }
  for (Ints& s : sums) hide(s);
  return 2.0 * kSums * static_cast<double>(kStepBytes) * static_cast<double>(loops);
}

}  // namespace

void fill_quant_peak(Table& table) { table.peak_int8 = peak_int8; }

}  // namespace makar::kernels::MAKAR_ISA
#else
namespace makar::kernels::MAKAR_ISA {
void fill_quant_peak(Table&) {}
}  // namespace makar::kernels::MAKAR_ISA
#endif
