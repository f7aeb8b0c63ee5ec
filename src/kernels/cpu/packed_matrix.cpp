// Weights packed for repeated products.
#include <algorithm>
#include <atomic>

#include "base/cores.h"
#include "kernels/cpu/gemm_tasks.h"

namespace makar::kernels {
namespace {

constexpr int64_t kTaskPanels = 4;  // panels that one task packs

// True if no f16 has all exponent bits set. Padding is zero.
bool all_finite(const uint16_t* x, int64_t count) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i) found |= (x[i] & 0x7c00u) == 0x7c00u;
  return !found;
}

}  // namespace

size_t PackedMatrix::bytes_for(DType type, int64_t n, int64_t k, const Table& table) {
  if (is_block(type)) return QuantMatrix::bytes_for(type, n, k);
  return static_cast<size_t>(ceil_div(n, table.nr) * table.nr * k) * size_of(type);
}

PackedMatrix PackedMatrix::pack(ThreadPool& pool, const Operand& b, int64_t n, int64_t k, const Table& table,
                                Memory& memory) {
  PackedMatrix packed;
  if (is_block(b.type)) {
    check(b.k_stride == 1 && b.row_stride == k, "a matrix of a block type must be contiguous");
    packed.quant_ = QuantMatrix::pack(pool, b.type, b.data, n, k, table, memory);
    packed.table_ = &table, packed.n_ = n, packed.k_ = k;
    return packed;
  }
  check_product_type(b.type);
  const int64_t panels = ceil_div(n, table.nr);
  packed.table_ = &table;
  packed.data_ = Tensor::empty({panels, k, table.nr}, b.type, memory);
  std::byte* panels_at = packed.data_.address();
  if (memory.is_host()) place_parts(panels_at, packed.data_.bytes(), pool.threads());
  packed.n_ = n, packed.k_ = k;
  const int64_t tasks = ceil_div(panels, kTaskPanels);
  std::atomic<bool> finite = b.type == DType::kF16;
  pool.run(tasks, [&](int64_t task) {
    const int64_t row = task * kTaskPanels * table.nr,
                  rows = std::min<int64_t>(n - row, kTaskPanels * table.nr);
    if (b.type == DType::kF32)
      table.pack_b(floats_at(b, row, 0), b.row_stride, b.k_stride, rows, k,
                   reinterpret_cast<float*>(panels_at) + row * k);
    else
      table.pack_b16(reinterpret_cast<const uint16_t*>(operand_at(b, row, 0)), b.row_stride, b.k_stride, rows,
                     k, reinterpret_cast<uint16_t*>(panels_at) + row * k);
    const int64_t padded = ceil_div(rows, table.nr) * table.nr;
    if (b.type == DType::kF16 && !all_finite(reinterpret_cast<uint16_t*>(panels_at) + row * k, padded * k))
      finite.store(false, std::memory_order_relaxed);
  });
  packed.finite_f16_ = finite.load();
  return packed;
}

const void* PackedMatrix::panel(int64_t index) const {
  return data_.address() + static_cast<size_t>(index * k_ * table_->nr) * size_of(data_.dtype());
}

}  // namespace makar::kernels
