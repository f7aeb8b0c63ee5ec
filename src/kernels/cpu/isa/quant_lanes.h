// The four columns of the instruction set being compiled.
#pragma once
#if defined(MAKAR_ISA_neon)
#include "kernels/cpu/isa/quant_neon.h"
#elif defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avx512)
#include "kernels/cpu/isa/quant_x86.h"
#else
#include "kernels/cpu/isa/quant_portable.h"
#endif
