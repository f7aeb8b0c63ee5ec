// Kernels that move, gather and reduce rows.
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "kernels/cpu/ranges.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu_device.h"
#include "kernels/decode_blocks.h"

namespace makar {

using namespace kernels;

namespace {

constexpr int64_t kColumnGrain = 64;  // minimum columns per task

void copy_floats(const float* from, float* to, int64_t n) {
  if (n > 0) std::memcpy(to, from, sizeof(float) * static_cast<size_t>(n));
}

}  // namespace

void CpuDevice::copy_columns(const CopyColumns& a) {
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const float* from = a.from + r * a.from_stride;
      float* to = a.to + r * a.to_stride;
      a.accumulate ? cpu().add(to, from, to, a.cols) : copy_floats(from, to, a.cols);
    }
  });
}

void CpuDevice::transpose(const Transpose& a) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.cols; ++j) a.y[j * a.rows + i] = a.x[i * a.cols + j];
}

void CpuDevice::gather_rows(const GatherRows& a) {
  each_rows(*pool_, a.count, a.width, [&](int64_t r0, int64_t r1) {
    for (int64_t i = r0; i < r1; ++i) {
      const float* from = a.x + a.index[i] * a.width;
      float* to = a.y + i * a.width;
      if (a.index[i] < 0) {
        if (!a.accumulate) std::fill_n(to, a.width, 0.0f);
      } else if (a.accumulate) {
        cpu().add(to, from, to, a.width);
      } else {
        copy_floats(from, to, a.width);
      }
    }
  });
}

// Each thread handles a range of columns, so every sum keeps the order of i.
void CpuDevice::scatter_rows(const ScatterRows& a) {
  const auto body = [&](int64_t c0, int64_t c1) {
    for (int64_t i = 0; i < a.count; ++i) {
      if (a.index[i] < 0) continue;
      float* to = a.y + a.index[i] * a.width;
      const float* from = a.x + i * a.width;
      if (a.accumulate)
        for (int64_t c = c0; c < c1; ++c) to[c] += from[c];
      else
        copy_floats(from + c0, to + c0, c1 - c0);
    }
  };
  if (a.count * a.width <= kGrain) return body(0, a.width);
  pool_->for_ranges(a.width, kColumnGrain, body);
}

void CpuDevice::pick(const Pick& a) {
  for (int64_t i = 0; i < a.rows; ++i) a.y[i] = a.x[i * a.cols + a.index[i]];
}

void CpuDevice::pick_backward(const PickBackward& a) {
  for (int64_t i = 0; i < a.rows; ++i) a.dx[i * a.cols + a.index[i]] += a.dy[i];
}

void CpuDevice::scale_rows(const ScaleRows& a) {
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t i = r0; i < r1; ++i)
      cpu().scale(a.x + i * a.cols, a.w[i], a.y + i * a.cols, a.cols, a.accumulate);
  });
}

void CpuDevice::row_dots(const RowDots& a) {
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t i = r0; i < r1; ++i) {
      const float d = cpu().dot(a.a + i * a.cols, a.b + i * a.cols, a.cols);
      a.y[i] = a.accumulate ? a.y[i] + d : d;
    }
  });
}

void CpuDevice::row_norms(const RowNorms& a) {
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t i = r0; i < r1; ++i) {
      const float length = std::sqrt(cpu().sum_squares(a.x + i * a.cols, a.cols));
      a.y[i] = a.inverse ? 1.0f / length : length;
    }
  });
}

namespace {
// Rows in sequence: the bits do not depend on the threads, and a second micro-batch continues the sum of the
// first.
template <class Sums>
void sum_columns(ThreadPool& pool, const Sums& a, const auto& add) {
  constexpr int64_t kMinColumns = 16, kMaxColumns = 64;
  const int64_t share = ceil_div(ceil_div(a.cols, pool.threads()), kMinColumns) * kMinColumns;
  const int64_t columns = std::clamp(share, kMinColumns, kMaxColumns);
  pool.run(ceil_div(a.cols, columns), [&](int64_t block) {
    const int64_t j = block * columns, width = std::min(columns, a.cols - j);
    float sum[kMaxColumns] = {};
    if (a.accumulate) std::copy_n(a.y + j, width, sum);
    add(a.x + j, a.rows, a.cols, width, sum);
    std::copy_n(sum, width, a.y + j);
  });
}
}  // namespace

void CpuDevice::column_sums(const ColumnSums& a) { sum_columns(*pool_, a, cpu().add_rows); }
void CpuDevice::column_sums_bf16(const ColumnSumsBf16& a) {
  sum_columns(*pool_, a, [](const Bf16* x, auto... rest) {
    cpu().add_rows_bf16(reinterpret_cast<const uint16_t*>(x), rest...);
  });
}

void CpuDevice::column_squares(const ColumnSquares& a) {
  pool_->for_ranges(a.cols, kColumnGrain, [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t c = begin; c < end; ++c) {
        const double v = a.x[r * a.cols + c];
        a.y[c] += v * v;
      }
  });
}

void CpuDevice::sum(const Sum& a) {
  double total = 0;
  for (int64_t i = 0; i < a.n; i += kSumChunk) total += cpu().sum(a.x + i, std::min(kSumChunk, a.n - i));
  a.y[0] = static_cast<float>(total * a.factor);
}

void CpuDevice::sum_squares(const SumSquaresList& all) {
  for (const SumSquares& a : std::span(all.items, static_cast<size_t>(all.count))) {
    const auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        a.y[i] = cpu().sum_squares(a.x + i * kSquaresChunk, std::min(kSquaresChunk, a.n - i * kSquaresChunk));
    };
    if (a.n <= kGrain)
      body(0, ceil_div(a.n, kSquaresChunk));
    else
      pool_->for_ranges(ceil_div(a.n, kSquaresChunk), 8, body);
  }
}

void CpuDevice::embed(const Embed& a) {
  each_rows(*pool_, a.count, a.width, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      decode_blocks(a.type, static_cast<const std::byte*>(a.table) + bytes_of(a.type, a.ids[r] * a.width),
                    a.width, a.y + r * a.width);
  });
}

// Each thread handles a range of columns, so each row's sum keeps the order of the tokens.
void CpuDevice::embed_backward(const EmbedBackward& a) {
  pool_->for_ranges(a.width, kColumnGrain, [&](int64_t c0, int64_t c1) {
    if (!a.accumulate)
      for (int64_t r = 0; r < a.table_rows; ++r)
        std::fill(a.dtable + r * a.width + c0, a.dtable + r * a.width + c1, 0.0f);
    for (int64_t i = 0; i < a.count; ++i) {
      if (a.ids[i] == a.padding) continue;
      float* row = a.dtable + a.ids[i] * a.width;
      const float* from = a.dy + i * a.width;
      for (int64_t c = c0; c < c1; ++c) row[c] += from[c];
    }
  });
}

namespace {

// Calls body(column, pixel) for every non-padding value in a row of the unfolded matrix.
template <class Args, class F>
void each_pixel(const Args& a, int64_t row, F&& body) {
  const int64_t n = row / (a.out_h * a.out_w), y0 = row / a.out_w % a.out_h * a.stride - a.padding,
                x0 = row % a.out_w * a.stride - a.padding;
  for (int64_t c = 0, col = 0; c < a.channels; ++c)
    for (int64_t i = 0; i < a.kernel; ++i)
      for (int64_t j = 0; j < a.kernel; ++j, ++col) {
        const int64_t y = y0 + i, x = x0 + j;
        if (y >= 0 && y < a.height && x >= 0 && x < a.width)
          body(col, ((n * a.channels + c) * a.height + y) * a.width + x);
      }
}

}  // namespace

void CpuDevice::unfold(const Unfold& a) {
  const int64_t rows = a.batch * a.out_h * a.out_w, cols = a.channels * a.kernel * a.kernel;
  each_rows(*pool_, rows, cols, [&](int64_t r0, int64_t r1) {
    std::fill(a.patches + r0 * cols, a.patches + r1 * cols, 0.0f);
    for (int64_t r = r0; r < r1; ++r)
      each_pixel(a, r, [&](int64_t col, int64_t pixel) { a.patches[r * cols + col] = a.images[pixel]; });
  });
}

void CpuDevice::unfold_backward(const UnfoldBackward& a) {
  const int64_t rows = a.out_h * a.out_w, cols = a.channels * a.kernel * a.kernel;
  // An image belongs to one thread, and its patches are added in order.
  pool_->for_ranges(a.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin * rows; r < end * rows; ++r)
      each_pixel(a, r, [&](int64_t col, int64_t pixel) { a.dimages[pixel] += a.dpatches[r * cols + col]; });
  });
}

void CpuDevice::decode(const Decode& a) {
  pool_->for_ranges(a.rows, 16, [&](int64_t begin, int64_t end) {
    decode_blocks(a.type, static_cast<const std::byte*>(a.x) + bytes_of(a.type, begin * a.cols),
                  (end - begin) * a.cols, a.y + begin * a.cols);
  });
}

void CpuDevice::arg_max(const ArgMax& a) {
  const auto value = [&](int64_t i) {
    return a.type == DType::kF32 ? static_cast<const float*>(a.x)[i]
                                 : from_bf16(static_cast<const Bf16*>(a.x)[i].bits);
  };
  pool_->for_ranges(a.rows, 1, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      int64_t best = -1;
      float top = -std::numeric_limits<float>::infinity();
      bool finite = true;
      for (int64_t c = 0; c < a.cols; ++c) {
        const float x = value(r * a.cols + c);
        finite = finite && x < std::numeric_limits<float>::infinity();  // false for NaN
        if (x > top) top = x, best = c;
      }
      a.y[r] = finite ? best : -1;
    }
  });
}

void CpuDevice::advance_rows(const AdvanceRows& a) {
  for (int64_t i = 0; i < a.count; ++i) {
    SequenceRows& s = a.sequences[i];
    a.tokens[i] = s.q_rows > 0 ? std::max<int64_t>(a.chosen[i], 0) : 0;
    if (s.q_rows > 0) ++a.positions[i], ++s.past, ++s.kv_rows;
  }
}

}  // namespace makar
