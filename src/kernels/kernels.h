// The one list of CPU kernels. A Table holds the kernels of one instruction set; cpu() is the best one this
// machine runs. Kernels are single-threaded and work on plain pointers: shapes are checked in ops/, work is cut
// for threads in ops/ and in the drivers beside this file. All tables give the same bits.
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace makar::kernels {

struct Table {
  const char* isa = "";

  // --- matrix product on packed panels (gemm.h drives these) ---
  int mr = 0;  // rows of an A panel:  [k][mr]
  int nr = 0;  // columns of a B panel: [k][nr]
  int kc = 0;  // k at a time that keeps a B panel in the first cache
  // c[i*ldc + j] = (accumulate ? c : 0) + sum over k in sequence of a[k*mr + i] * b[k*nr + j], i < rows, j < cols.
  void (*tile)(int64_t k, const float* a, const float* b, float* c, int64_t ldc, int rows, int cols,
               bool accumulate) = nullptr;
  // x[rows, k], element (r, p) at x[r*row_stride + p*k_stride], into consecutive panels of mr (nr) rows, the last
  // one padded with zeros. Fast when one of the strides is 1.
  void (*pack_a)(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k, float* out) = nullptr;
  void (*pack_b)(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k, float* out) = nullptr;
  // All tiles of packed panels: c[m, n] = (accumulate ? c : 0) + A B^T.
  void (*product)(int64_t m, int64_t n, int64_t k, const float* a_panels, const float* b_panels, float* c, int64_t ldc,
                  bool accumulate) = nullptr;
  // One to rows_max rows of A as they stand (k contiguous, lda apart) by packed panels of f32, f16 or bf16, each
  // `panel` elements after the one before: what decoding does.
  int rows_max = 0;
  void (*rows)(DType type, int m, int64_t n, int64_t k, const float* a, int64_t lda, const void* b_panels,
               int64_t panel, float* c, int64_t ldc, bool accumulate) = nullptr;
  // pack_b of f16 or bf16: keeping the storage type, or widened to f32.
  void (*pack_b16)(const uint16_t* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                   uint16_t* out) = nullptr;
  void (*pack_b_widen)(DType type, const uint16_t* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                       float* out) = nullptr;
  void (*widen)(DType type, const uint16_t* x, int64_t count, float* out) = nullptr;  // f16 or bf16 to f32
};

// The table for this machine. MAKAR_ISA=portable|neon|avx2|avx512 in the environment forces one.
const Table& cpu();
// Every table this machine can run, for tests that compare their bits.
std::vector<const Table*> available();

}  // namespace makar::kernels
