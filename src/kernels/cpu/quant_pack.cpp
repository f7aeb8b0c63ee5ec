// Packs block-type weights into panels of four columns.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/quant.h"
#include "kernels/cpu/quant_form.h"
#include "kernels/cpu/quant_split.h"

namespace makar::kernels {
namespace {

constexpr int kSteps = kQuantBlock / 4;  // steps per block; each is 4 columns by 4 k
constexpr int64_t kAhead = 512;          // prefetch distance in bytes, per row

// Stores one block of 64 k: 16 steps of int8 in the form's encoding.
void store_values(QuantValues values, const uint8_t (&steps)[kSteps][16], std::byte* to) {
  auto* __restrict out = reinterpret_cast<uint8_t*>(to);
  if (values == QuantValues::kInt8 || values == QuantValues::kInt16) {
    std::memcpy(out, steps, sizeof steps);
  } else if (values == QuantValues::kInt6) {
    for (int run = 0; run < 4; ++run, out += 48)
      for (int s = 0; s < 3; ++s)
        for (int i = 0; i < 16; ++i) {
          const int fourth = steps[run * 4 + 3][i] >> (4 - 2 * s) & 3;
          out[s * 16 + i] = static_cast<uint8_t>(steps[run * 4 + s][i] << 2 | fourth);
        }
  } else if (values == QuantValues::kUnsigned2) {
    for (int run = 0; run < 4; ++run, out += 16)
      for (int i = 0; i < 16; ++i)
        out[i] = static_cast<uint8_t>(steps[run * 4][i] | steps[run * 4 + 1][i] << 2 |
                                      steps[run * 4 + 2][i] << 4 | steps[run * 4 + 3][i] << 6);
  } else {
    for (int half = 0; half < 2; ++half, out += 64)
      for (int s = 0; s < 4; ++s)
        for (int i = 0; i < 16; ++i)
          out[s * 16 + i] =
              static_cast<uint8_t>((steps[half * 8 + s][i] & 15) | steps[half * 8 + 4 + s][i] << 4);
  }
}

void store_half(std::byte* to, uint16_t bits) { std::memcpy(to, &bits, 2); }

// Values of 64 k that begin at `first` in each column's q.
void store_block(const QuantForm& f, const int8_t* const (&q)[kQuantCols], std::byte* to) {
  uint8_t steps[kSteps][16];
  for (int s = 0; s < kSteps; ++s)
    for (int c = 0; c < kQuantCols; ++c) std::memcpy(&steps[s][c * 4], q[c] + s * 4, 4);
  store_values(f.values, steps, to);
}

// Stores a group whose 256 weights share d: one file block per column.
void store_super(const QuantForm& f, const SplitBlock (&columns)[kQuantCols], std::byte* to) {
  const int parts = 4 * parts_of(f);
  std::byte* scales = to + (f.mins ? 16 : 8);
  for (int c = 0; c < kQuantCols; ++c) {
    store_half(to + c * 2, columns[c].d);
    if (f.mins) store_half(to + 8 + c * 2, columns[c].min);
    for (int p = 0; p < parts; ++p) {
      scales[p * 4 + c] = std::byte{columns[c].scales[p]};
      if (f.mins) scales[(parts + p) * 4 + c] = std::byte{columns[c].part_mins[p]};
    }
  }
  for (int b = 0; b < blocks_of(f); ++b) {
    const int8_t* q[kQuantCols];
    for (int c = 0; c < kQuantCols; ++c) q[c] = columns[c].q + b * kQuantBlock;
    store_block(f, q, to + scale_bytes(f) + b * value_bytes(f));
  }
}

// Stores one of the two blocks of 32 in a group: scales in place, values to q.
void store_half_block(const QuantForm& f, const SplitBlock& block, int part, int column, std::byte* to) {
  store_half(to + (part * 4 + column) * 2, block.d);
  if (f.mins) store_half(to + ((parts_of(f) + part) * 4 + column) * 2, block.min);
}

struct Packer {
  DType type;
  const QuantForm& form;
  const std::byte* rows;
  int64_t n, k;
  SplitBlockFn split = split_block_of(type);
  int64_t row_bytes = static_cast<int64_t>(bytes_of(type, k));
  int64_t block_bytes = layout_of(type).bytes, count = k / layout_of(type).elements;  // of the file's blocks

  // Reads block `at` of a row. Missing columns and k beyond the end are zeros with scale zero.
  void get(int64_t row, int64_t at, SplitBlock& out) const {
    if (row >= n || at >= count) {
      std::memset(&out, 0, sizeof out);
      return;
    }
    const std::byte* from = rows + row * row_bytes + at * block_bytes;
    __builtin_prefetch(from + kAhead);  // hardware prefetchers do not follow four rows at once
    split(from, out);
  }
  // Stores a group of 16-bit values: per block the high bytes, then the low ones.
  void store_wide(int64_t first, int64_t block, std::byte* to) const {
    std::byte* values = to + scale_bytes(form);
    SplitBlock columns[kQuantCols];
    for (int i = 0; i < blocks_of(form); ++i) {
      for (int c = 0; c < kQuantCols; ++c) {
        get(first + c, block + i, columns[c]);
        store_half(to + (i * kQuantCols + c) * 2, columns[c].d);
      }
      for (int half = 0; half < 2; ++half, values += kQuantBlock * kQuantCols) {
        const int at = half * kQuantBlock;
        store_block(form, {columns[0].q + at, columns[1].q + at, columns[2].q + at, columns[3].q + at},
                    values);
      }
    }
  }
  void panel(int64_t first, int64_t blocks, std::byte* to) const {
    SplitBlock columns[kQuantCols];
    for (int64_t b = 0; b < blocks; b += blocks_of(form), to += group_bytes(form)) {
      if (form.scales == QuantScales::kSuper) {
        for (int c = 0; c < kQuantCols; ++c) get(first + c, b / blocks_of(form), columns[c]);
        store_super(form, columns, to);
        continue;
      }
      if (form.values == QuantValues::kInt16) {
        store_wide(first, b, to);
        continue;
      }
      int8_t q[kQuantCols][kQuantBlock];
      for (int c = 0; c < kQuantCols; ++c)
        for (int part = 0; part < 2; ++part) {
          get(first + c, b * 2 + part, columns[c]);
          store_half_block(form, columns[c], part, c, to);
          std::memcpy(q[c] + part * 32, columns[c].q, 32);
        }
      store_block(form, {q[0], q[1], q[2], q[3]}, to + scale_bytes(form));
    }
  }
};

}  // namespace

size_t QuantMatrix::bytes_for(DType type, int64_t n, int64_t k) {
  const QuantForm& f = kQuantForms[holding_of(type).form];
  const int64_t panels = (n + kQuantCols - 1) / kQuantCols;
  return static_cast<size_t>(panels * (blocks_for(f, k) / blocks_of(f) * group_bytes(f)));
}

QuantMatrix QuantMatrix::pack(ThreadPool& pool, DType type, const void* blocks, int64_t n, int64_t k,
                              const Table& table, Memory& memory) {
  check(is_block(type) && k > 0 && k % layout_of(type).elements == 0, "quantised rows are whole blocks");
  const QuantHolding held = holding_of(type);
  const QuantForm& f = kQuantForms[held.form];
  QuantMatrix m;
  m.table_ = &table, m.type_ = type, m.form_ = held.form, m.unit_ = held.unit, m.book_ = held.book;
  m.n_ = n, m.k_ = k, m.blocks_ = blocks_for(f, k);
  m.panel_bytes_ = m.blocks_ / blocks_of(f) * group_bytes(f);
  const int64_t panels = (n + kQuantCols - 1) / kQuantCols;
  m.data_ = Tensor::empty({panels, m.panel_bytes_}, DType::kU8, memory);
  const Packer packer{type, f, static_cast<const std::byte*>(blocks), n, k};
  pool.for_ranges(panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      packer.panel(p * kQuantCols, m.blocks_, m.data_.address() + p * m.panel_bytes_);
  });
  return m;
}

}  // namespace makar::kernels
