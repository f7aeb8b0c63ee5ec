#include "ops/embedding.h"

#include <cmath>

namespace makar::ops {

Tensor embedding(Context& ctx, const Tensor& table, std::span<const int64_t> ids, int64_t padding) {
  check(table.rank() == 2, "embedding: the table is a matrix");
  const int64_t n = table.dim(0), width = table.dim(1), rows = static_cast<int64_t>(ids.size());
  for (const int64_t id : ids) check(id >= 0 && id < n, "embedding: id out of range");
  const Tensor y = ctx.empty({rows, width}), device_ids = ctx.upload(ids);
  ctx.device.embed({ctx.address(table), table.dtype(), ctx.i64(device_ids), ctx.f32(y), rows, width});
  if (ctx.needs(table))
    ctx.tape->record(y, [ctx, to = Key(table), device_ids, rows, width, padding](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      ctx.device.embed_backward({ctx.f32(dy), ctx.i64(device_ids), ctx.f32(t.buffer), rows, width,
                                 to.shape[0], padding, t.accumulate});
    });
  return y;
}

Tensor embedding(Context& ctx, const Tensor& table, const Tensor& ids) {
  check(table.rank() == 2 && !ctx.needs(table), "embedding: the table is a matrix without a gradient");
  const int64_t width = table.dim(1), rows = ids.count();
  const Tensor y = ctx.empty({rows, width});
  ctx.device.embed({ctx.address(table), table.dtype(), ctx.i64(ids), ctx.f32(y), rows, width});
  return y;
}

Tensor sinusoidal_positions(int64_t positions, int64_t width, bool fairseq) {
  Tensor table = Tensor::zeros({positions, width});
  const int64_t half = fairseq ? width / 2 : (width + 1) / 2;
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < (fairseq ? 2 * half : width); ++i) {
      const bool cosine = i >= half;
      const int64_t pair = cosine ? i - half : i;
      double angle = static_cast<double>(p) /
                     std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(width));
      if (fairseq) {  // in f32, as those models were trained
        const double step = std::log(10000.0) / static_cast<double>(std::max<int64_t>(half - 1, 1));
        angle = static_cast<float>(p) * std::exp(static_cast<float>(pair) * -static_cast<float>(step));
      }
      table.f32()[p * width + i] = static_cast<float>(cosine ? std::cos(angle) : std::sin(angle));
    }
  return table;
}

}  // namespace makar::ops
