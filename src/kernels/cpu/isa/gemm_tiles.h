// The register tiles of the instruction set being compiled: kMr, kNr, kRowsMax, full_tile, full_rows.
#pragma once
#if defined(MAKAR_ISA_neon)
#include "kernels/cpu/isa/gemm_neon.h"
#elif defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avx512)
#include "kernels/cpu/isa/gemm_x86.h"
#else
#include "kernels/cpu/isa/gemm_portable.h"
#endif
