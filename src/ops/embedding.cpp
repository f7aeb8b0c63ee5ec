#include "ops/embedding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/decode_blocks.h"
#include "ops/ranges.h"

namespace makar::ops {

Tensor embedding(Context& ctx, const Tensor& table, std::span<const int64_t> ids, int64_t padding) {
  check(table.rank() == 2, "embedding: the table is a matrix");
  const int64_t n = table.dim(0), width = table.dim(1), rows = static_cast<int64_t>(ids.size());
  for (const int64_t id : ids) check(id >= 0 && id < n, "embedding: id out of range");
  Tensor y = Tensor::empty({rows, width});
  each_rows(ctx, rows, width, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const std::byte* from = table.raw() + bytes_of(table.dtype(), ids[static_cast<size_t>(r)] * width);
      kernels::decode_blocks(table.dtype(), from, width, y.f32() + r * width);
    }
  });
  if (ctx.needs(table))
    ctx.tape->record(y, [&ctx, to = Key(table), kept = std::vector<int64_t>(ids.begin(), ids.end()), width,
                         padding](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      // Threads own ranges of columns, so each row's sum keeps the order of the tokens.
      ctx.pool.for_ranges(width, 64, [&](int64_t c0, int64_t c1) {
        if (!t.accumulate)
          for (int64_t r = 0; r < to.shape[0]; ++r)
            std::fill(t.buffer.f32() + r * width + c0, t.buffer.f32() + r * width + c1, 0.0f);
        for (size_t i = 0; i < kept.size(); ++i) {
          if (kept[i] == padding) continue;
          float* row = t.buffer.f32() + kept[i] * width;
          const float* from = dy.f32() + static_cast<int64_t>(i) * width;
          for (int64_t c = c0; c < c1; ++c) row[c] += from[c];
        }
      });
    });
  return y;
}

Tensor sinusoidal_positions(int64_t positions, int64_t width, bool interleaved) {
  Tensor table = Tensor::empty({positions, width});
  const int64_t half = (width + 1) / 2;
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < width; ++i) {
      const bool cosine = interleaved ? i % 2 == 1 : i >= half;
      const int64_t pair = interleaved ? i / 2 : (cosine ? i - half : i);
      const double angle = static_cast<double>(p) /
                           std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(width));
      table.f32()[p * width + i] = static_cast<float>(cosine ? std::cos(angle) : std::sin(angle));
    }
  return table;
}

}  // namespace makar::ops
