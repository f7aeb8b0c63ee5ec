// Packs block-type weights into panels.
#include <algorithm>
#include <cstring>

#include "base/cores.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/quant_form.h"
#include "kernels/cpu/quant_split.h"

namespace makar::kernels {
namespace {

constexpr int kSteps = kQuantBlock / 4;  // steps per block; each is all columns by 4 k
constexpr int64_t kPrefetchBytes = 512;  // prefetch distance in bytes, per row

// Stores 2 of every 4 values, and their positions.
template <int C>
void store_sparse(const uint8_t (&steps)[kSteps][C * 4], uint8_t* __restrict out) {
  constexpr int kBytes = C * 4;
  uint8_t* positions = out + kSteps / 2 * kBytes;
  std::memset(positions, 0, 2 * kBytes);
  for (int s = 0; s < kSteps; ++s)
    for (int c = 0; c < C; ++c) {
      const uint8_t* four = &steps[s][c * 4];
      int sorted = 0, order[4];  // the positions of the values that are not zero, then of the zeros
      for (const bool zeros : {false, true})
        for (int j = 0; j < 4; ++j)
          if ((four[j] == 0) == zeros) order[sorted++] = j;
      for (int i = 0; i < 2; ++i) {
        const int vector = s / 2, at = c * 4 + s % 2 * 2 + i;
        out[vector * kBytes + at] = four[order[i]];
        positions[vector / 4 * kBytes + at] |= static_cast<uint8_t>(order[i] << (vector % 4 * 2));
      }
    }
}

// Stores one block of 64 k: 16 steps of int8 in the form's encoding.
template <int C>
void store_values(QuantValues values, const uint8_t (&steps)[kSteps][C * 4], std::byte* to) {
  constexpr int kBytes = C * 4;
  auto* __restrict out = reinterpret_cast<uint8_t*>(to);
  if (values == QuantValues::kInt8 || values == QuantValues::kInt16) {
    std::memcpy(out, steps, sizeof steps);
  } else if (values == QuantValues::kSparse8) {
    store_sparse<C>(steps, out);
  } else if (values == QuantValues::kInt6) {
    for (int run = 0; run < 4; ++run, out += 3 * kBytes)
      for (int s = 0; s < 3; ++s)
        for (int i = 0; i < kBytes; ++i) {
          const int fourth = steps[run * 4 + 3][i] >> (4 - 2 * s) & 3;
          out[s * kBytes + i] = static_cast<uint8_t>(steps[run * 4 + s][i] << 2 | fourth);
        }
  } else if (values == QuantValues::kUnsigned2) {
    for (int run = 0; run < 4; ++run, out += kBytes)
      for (int i = 0; i < kBytes; ++i)
        out[i] = static_cast<uint8_t>(steps[run * 4][i] | steps[run * 4 + 1][i] << 2 |
                                      steps[run * 4 + 2][i] << 4 | steps[run * 4 + 3][i] << 6);
  } else {
    for (int half = 0; half < 2; ++half, out += 4 * kBytes)
      for (int s = 0; s < 4; ++s)
        for (int i = 0; i < kBytes; ++i)
          out[s * kBytes + i] =
              static_cast<uint8_t>((steps[half * 8 + s][i] & 15) | steps[half * 8 + 4 + s][i] << 4);
  }
}

void store_half(std::byte* to, uint16_t bits) { std::memcpy(to, &bits, 2); }

// Stores 64 values per column; q[c] points at the values of column c.
template <int C>
void store_block(const QuantForm& f, const int8_t* const (&q)[C], std::byte* to) {
  uint8_t steps[kSteps][C * 4];
  for (int s = 0; s < kSteps; ++s)
    for (int c = 0; c < C; ++c) std::memcpy(&steps[s][c * 4], q[c] + s * 4, 4);
  store_values<C>(f.values, steps, to);
}

// Stores a group whose 256 weights share d: one file block per column.
template <int C>
void store_super(const QuantForm& f, const SplitBlock (&columns)[C], std::byte* to) {
  const int parts = 4 * parts_of(f);
  std::byte* scales = to + (f.mins ? C * 4 : C * 2);
  for (int c = 0; c < C; ++c) {
    store_half(to + c * 2, columns[c].d);
    if (f.mins) store_half(to + (C + c) * 2, columns[c].min);
    for (int p = 0; p < parts; ++p) {
      scales[p * C + c] = std::byte{columns[c].scales[p]};
      if (f.mins) scales[(parts + p) * C + c] = std::byte{columns[c].part_mins[p]};
    }
  }
  for (int b = 0; b < blocks_of(f); ++b) {
    const int8_t* q[C];
    for (int c = 0; c < C; ++c) q[c] = columns[c].q + b * kQuantBlock;
    store_block<C>(f, q, to + scale_bytes(f, C) + b * value_bytes(f, C));
  }
}

template <int C>
struct Packer {
  DType type;
  const QuantForm& form;
  const std::byte* rows;
  int64_t n, k;
  SplitBlockFn split = split_block_of(type);
  int64_t row_bytes = static_cast<int64_t>(bytes_of(type, k));
  int64_t block_bytes = layout_of(type).bytes, count = k / layout_of(type).elements;  // the blocks of a row

  // Reads block `at` of a row. Missing columns and k beyond the end are zeros with scale zero.
  void get(int64_t row, int64_t at, SplitBlock& out) const {
    if (row >= n || at >= count) {
      std::memset(&out, 0, sizeof out);
      return;
    }
    const std::byte* from = rows + row * row_bytes + at * block_bytes;
    __builtin_prefetch(from + kPrefetchBytes);  // hardware prefetchers do not follow many rows at once
    split(from, out);
  }
  // Stores a group of 16-bit values: per block the high bytes, then the low ones.
  void store_int16(int64_t first, int64_t block, std::byte* to) const {
    std::byte* values = to + scale_bytes(form, C);
    SplitBlock columns[C];
    for (int i = 0; i < blocks_of(form); ++i) {
      for (int c = 0; c < C; ++c) {
        get(first + c, block + i, columns[c]);
        store_half(to + (i * C + c) * 2, columns[c].d);
      }
      for (int half = 0; half < 2; ++half, values += kQuantBlock * C) {
        const int8_t* q[C];
        for (int c = 0; c < C; ++c) q[c] = columns[c].q + half * kQuantBlock;
        store_block<C>(form, q, values);
      }
    }
  }
  // Stores a block of 64 from two blocks of 32 in the file: the scales of both, then the values of both.
  void store_halves(int64_t first, int64_t block, std::byte* to) const {
    const int64_t mins = parts_of(form) * C * 2;
    int8_t values[C][kQuantBlock];
    const int8_t* q[C];
    SplitBlock one;
    for (int c = 0; c < C; ++c) {
      for (int part = 0; part < 2; ++part) {
        get(first + c, block * 2 + part, one);
        store_half(to + (part * C + c) * 2, one.d);
        if (form.mins) store_half(to + mins + (part * C + c) * 2, one.min);
        std::memcpy(values[c] + part * 32, one.q, 32);
      }
      q[c] = values[c];
    }
    store_block<C>(form, q, to + scale_bytes(form, C));
  }
  void panel(int64_t first, int64_t blocks, std::byte* to) const {
    SplitBlock columns[C];
    for (int64_t b = 0; b < blocks; b += blocks_of(form), to += group_bytes(form, C)) {
      if (form.scales == QuantScales::kSuper) {
        for (int c = 0; c < C; ++c) get(first + c, b / blocks_of(form), columns[c]);
        store_super<C>(form, columns, to);
      } else if (form.values == QuantValues::kInt16) {
        store_int16(first, b, to);
      } else {
        store_halves(first, b, to);
      }
    }
  }
  void panels(ThreadPool& pool, int64_t blocks, std::byte* to) const {
    const int64_t bytes = blocks / blocks_of(form) * group_bytes(form, C);
    pool.for_ranges(ceil_div(n, C), 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) panel(p * C, blocks, to + p * bytes);
    });
  }
};

}  // namespace

size_t QuantMatrix::bytes_for(DType type, int64_t n, int64_t k) {
  const QuantForm& f = kQuantForms[storage_of(type).form];
  const int cols = cpu().quant_cols;
  return static_cast<size_t>(ceil_div(n, cols) * (blocks_for(f, k) / blocks_of(f) * group_bytes(f, cols)));
}

QuantMatrix QuantMatrix::pack(ThreadPool& pool, DType type, const void* blocks, int64_t n, int64_t k,
                              const Table& table, Memory& memory) {
  check(is_block(type) && k > 0 && k % layout_of(type).elements == 0,
        "the row length of quantized weights must be a multiple of the block size");
  const QuantStorage storage = storage_of(type);
  const QuantForm& f = kQuantForms[storage.form];
  QuantMatrix m;
  m.table_ = &table, m.type_ = type, m.form_ = storage.form, m.unit_ = storage.unit,
  m.codebook_ = storage.codebook;
  m.n_ = n, m.k_ = k, m.blocks_ = blocks_for(f, k);
  m.panel_bytes_ = m.blocks_ / blocks_of(f) * group_bytes(f, table.quant_cols);
  m.data_ = Tensor::empty({ceil_div(n, table.quant_cols), m.panel_bytes_}, DType::kU8, memory);
  if (memory.is_host()) place_parts(m.data_.address(), m.data_.bytes(), pool.threads());
  const auto* from = static_cast<const std::byte*>(blocks);
  if (table.quant_cols == 4)
    Packer<4>{type, f, from, n, k}.panels(pool, m.blocks_, m.data_.address());
  else if (table.quant_cols == 8)
    Packer<8>{type, f, from, n, k}.panels(pool, m.blocks_, m.data_.address());
  else
    Packer<16>{type, f, from, n, k}.panels(pool, m.blocks_, m.data_.address());
  return m;
}

}  // namespace makar::kernels
