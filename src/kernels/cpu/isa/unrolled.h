// MAKAR_UNROLLED before a loop with constant bounds: its arrays stay in registers.
#pragma once

// Portable code is the reference; unrolling would only slow down compilation. The GPU's compiler decides
// itself.
#if defined(MAKAR_ISA_portable) || defined(__CUDACC__)
#define MAKAR_UNROLLED
#elif defined(__clang__)
#define MAKAR_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define MAKAR_UNROLLED _Pragma("GCC unroll 16")
#endif
