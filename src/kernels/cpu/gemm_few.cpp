// Products of few rows by packed weights: all products with one A read their panels once, in place, in one
// parallel region. Up to rows_max rows, A is not packed.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/gemm_tasks.h"

namespace makar::kernels {
namespace {

// Panels of A up to which packed B is read once, in place: 16-bit weights are widened in the tiles. On ARM
// widening takes more time than the product of so few rows.
#if defined(__aarch64__)
constexpr int64_t kMaxFewPanels = 1;
#else
constexpr int64_t kMaxFewPanels = 2;
#endif

constexpr int64_t kMaxShare = 32;  // panels of a thread, up to which a piece is one panel

// True if all |x| are below the limit.
bool below(const float* x, int64_t count, float limit) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i) found |= !(std::fabs(x[i]) < limit);
  return !found;
}

// The rows of a small A: unpacked with k contiguous, or packed.
class FewRows {
 public:
  FewRows(ThreadPool& pool, const Table& t, int64_t m, int64_t k, const Operand& a)
      : rows_(t, m),
        packed_(m > t.rows_max),
        copy_(Scratch::of_floats(packed_           ? rows_.panels * t.mr * k
                                 : a.k_stride == 1 ? 0
                                                   : m * k)),
        data_(copy_.get() ? copy_.floats() : floats_at(a, 0, 0)),
        lda_(a.k_stride == 1 ? a.row_stride : k) {
    if (packed_) {
      pack_gemm_rows(pool, t, a, rows_, k, copy_.floats());
    } else if (a.k_stride != 1) {
      for (int64_t p = 0; p < k; ++p)
        for (int64_t i = 0; i < m; ++i) copy_.floats()[i * k + p] = *floats_at(a, i, p);
    }
    small_ = m == 1 && t.row_f16 && below(data_, k, 0x1p15f);
  }
  // Panels [first, last) of a product.
  void multiply(const PackedProduct& product, int64_t first, int64_t last) const {
    const PackedMatrix& b = matrix_of(product);
    const GemmOutput& out = product.out;
    const Table& t = b.table();
    const int64_t k = b.k(), col = first * t.nr, end = std::min(b.n(), last * t.nr);
    if (packed_)
      return multiply_gemm_task(rows_, data_, {t, nullptr, &b, b.n(), true}, k, 0, rows_.panels, first, last,
                                out, nullptr, 1);
    if (small_ && b.finite_f16())
      t.row_f16(end - col, k, data_, b.panel(first), k * t.nr, out.c + col, out.accumulate);
    else
      t.rows(b.type(), static_cast<int>(rows_.m), end - col, k, data_, lda_, b.panel(first), k * t.nr,
             out.c + col, out.ldc, out.accumulate);
    add_bias(out, 0, rows_.m, col, end);
  }

 private:
  GemmRows rows_;
  bool packed_, small_ = false;  // small: one row for row_f16()
  Scratch copy_;
  const float* data_;
  int64_t lda_;
};

}  // namespace

int64_t max_few_rows(const Table& t) { return kMaxFewPanels * t.mr; }

// The panels of all products are read once; each thread reads its share of every matrix.
void gemm_few_rows(ThreadPool& pool, int64_t m, const Operand& a, std::span<const PackedProduct> products) {
  const PackedMatrix& b = matrix_of(products[0]);
  const Table& t = b.table();
  const auto panels = [&](size_t i) { return ceil_div(matrix_of(products[i]).n(), t.nr); };
  int64_t all = 0, bytes = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    check(matrix_of(products[i]).k() == b.k(), "products with one A have one k");
    all += panels(i), bytes += static_cast<int64_t>(matrix_of(products[i]).bytes());
  }
  if (all == 0) return;
  const FewRows rows(pool, t, m, b.k(), a);
  const int64_t threads = std::min<int64_t>(all, pool.threads()), share = ceil_div(all, threads);
  // Pieces of one or two panels, or of about 64 KiB: all threads finish together.
  const int64_t most = share <= kMaxShare ? share : std::max(kTasksPerThread, share / 2);
  const int64_t pieces = std::clamp<int64_t>(stream_tasks(pool, bytes) / threads, 1, most);
  pool.run(threads * pieces, [&](int64_t task) {
    each_share(products.size(), panels, task / pieces, threads, task % pieces, pieces,
               [&](size_t i, int64_t first, int64_t last) { rows.multiply(products[i], first, last); });
  });
}

}  // namespace makar::kernels
