// Functions of the host that kernels on a GPU call too.
#pragma once

#if defined(__CUDACC__)
#define MAKAR_INLINE __host__ __device__ inline
#else
#define MAKAR_INLINE inline
#endif
