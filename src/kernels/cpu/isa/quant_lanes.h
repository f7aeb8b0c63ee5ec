// Vector operations for quantized products in the instruction set being compiled; columns are lanes.
#pragma once
namespace makar::kernels::MAKAR_ISA {

// Ranges of the bytes in a dot product.
enum class Signs {
  kUnsigned,  // weights of 0 to 127, activations of -127 to 127
  kSigned,    // weights of -128 to 127, activations of -127 to 127
  kLowRows,   // weights of -127 to 127, activations of -128 to 127: the low bytes of 16 bits
};

}  // namespace makar::kernels::MAKAR_ISA

#if defined(MAKAR_ISA_neon)
#include "kernels/cpu/isa/quant_neon.h"
#elif defined(MAKAR_ISA_avx512vnni) || defined(MAKAR_ISA_amx)
#include "kernels/cpu/isa/quant_avx512.h"
#elif defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avxvnni) || defined(MAKAR_ISA_avx512)
#include "kernels/cpu/isa/quant_avx2.h"
#else
#include "kernels/cpu/isa/quant_portable.h"
#endif
