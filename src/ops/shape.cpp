#include "ops/shape.h"

#include <algorithm>
#include <numeric>

#include "ops/bf16.h"

namespace makar::ops {
namespace {

// x viewed as [outer, inner]: along axis 0, parts are blocks of rows (outer 1); along -1, slices of each row.
struct PartLayout {
  int64_t outer;
  std::vector<int64_t> widths;  // floats per part in one outer row
  int64_t total;
};

PartLayout part_layout(const std::vector<Shape>& parts, int axis) {
  check(axis == 0 || axis == -1, "concat and split work along the first or the last dimension");
  PartLayout layout{1, {}, 0};
  const int64_t last = parts[0].rank() ? parts[0][-1] : 1;
  layout.outer = axis == 0 ? 1 : (last ? parts[0].count() / last : 0);
  for (const Shape& p : parts) layout.widths.push_back(axis == 0 ? p.count() : p[-1]);
  layout.total = std::accumulate(layout.widths.begin(), layout.widths.end(), int64_t{0});
  return layout;
}

// Copies (or adds) `width` columns of each outer row: from column from_at of `from` to column to_at of `to`.
void copy_part(const Context& ctx, const PartLayout& layout, const Tensor& from, int64_t from_at,
               int64_t from_stride, const Tensor& to, int64_t to_at, int64_t to_stride, int64_t width,
               bool accumulate) {
  ctx.device.copy_columns({ctx.f32(from) + from_at, from_stride, ctx.f32(to) + to_at, to_stride, layout.outer,
                           width, accumulate});
}

void zero(const Context& ctx, const Tensor& t) { ctx.device.memory().zero(t.address(), t.bytes()); }

}  // namespace

Tensor reshape(Context& ctx, const Tensor& x, const Shape& shape) {
  Tensor y = x.reshape(shape);
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x)](const Tensor& dy) { ctx.tape->pass(to, dy.reshape(to.shape)); });
  return y;
}

Tensor concat(Context& ctx, const std::vector<Tensor>& inputs, int axis) {
  std::vector<Tensor> parts;
  for (const Tensor& p : inputs) parts.push_back(cast_to_f32(ctx, p));
  check(!parts.empty(), "concat: no tensors");
  std::vector<Shape> shapes;
  for (const Tensor& p : parts) shapes.push_back(p.shape());
  const PartLayout layout = part_layout(shapes, axis);
  Shape shape = shapes[0];
  shape[axis] = 0;
  for (const Shape& s : shapes) {
    shape[axis] += s[axis];
    Shape same = s;
    same[axis] = shapes[0][axis];
    check(same == shapes[0],
          "concat: " + shapes[0].text() + " and " + s.text() + " differ in another dimension");
  }
  Tensor y = ctx.empty(shape);
  int64_t at = 0;
  for (size_t p = 0; p < parts.size(); at += layout.widths[p], ++p)
    copy_part(ctx, layout, parts[p], 0, layout.widths[p], y, at, layout.total, layout.widths[p], false);
  bool any = false;
  for (const Tensor& p : parts) any = any || ctx.needs(p);
  if (any)
    ctx.tape->record(y, [ctx, keys = std::vector<Key>(parts.begin(), parts.end()), layout](const Tensor& dy) {
      int64_t from = 0;
      for (size_t p = 0; p < keys.size(); from += layout.widths[p], ++p) {
        if (!ctx.needs(keys[p])) continue;
        const auto t = ctx.tape->target(keys[p]);
        copy_part(ctx, layout, dy, from, layout.total, t.buffer, 0, layout.widths[p], layout.widths[p],
                  t.accumulate);
      }
    });
  return y;
}

std::vector<Tensor> split(Context& ctx, const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  if (any_bf16(ctx, x)) return split(ctx, cast_to_f32(ctx, x), sizes, axis);
  std::vector<Shape> shapes;
  for (const int64_t size : sizes) {
    shapes.push_back(x.shape());
    shapes.back()[axis] = size;
  }
  const PartLayout layout = part_layout(shapes, axis);
  check(layout.outer * layout.total == x.count(), "split: the sizes do not add up to the dimension");
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (size_t p = 0; p < sizes.size(); at += layout.widths[p], ++p) {
    parts.push_back(ctx.empty(shapes[p]));
    copy_part(ctx, layout, x, at, layout.total, parts[p], 0, layout.widths[p], layout.widths[p], false);
  }
  if (ctx.needs(x))
    ctx.tape->record(parts, [ctx, to = Key(x), layout](std::span<const Tensor> g) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) zero(ctx, t.buffer);
      int64_t at = 0;
      for (size_t p = 0; p < g.size(); at += layout.widths[p], ++p)
        if (g[p].defined())
          copy_part(ctx, layout, g[p], 0, layout.widths[p], t.buffer, at, layout.total, layout.widths[p],
                    true);
    });
  return parts;
}

Tensor transpose(Context& ctx, const Tensor& x) {
  if (any_bf16(ctx, x)) return transpose(ctx, cast_to_f32(ctx, x));
  check(x.rank() == 2, "transpose takes a matrix");
  const int64_t rows = x.dim(0), cols = x.dim(1);
  Tensor y = ctx.empty({cols, rows});
  ctx.device.transpose({ctx.f32(x), ctx.f32(y), rows, cols});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), rows, cols](const Tensor& dy) {
      Tensor dx = ctx.empty({rows, cols});
      ctx.device.transpose({ctx.f32(dy), ctx.f32(dx), cols, rows});
      ctx.tape->pass(to, dx);
    });
  return y;
}

namespace {

int64_t row_width(const Shape& shape) { return shape[0] ? shape.count() / shape[0] : 0; }

}  // namespace

Tensor gather_rows(Context& ctx, const Tensor& x, const std::vector<int64_t>& index) {
  if (any_bf16(ctx, x)) return gather_rows(ctx, cast_to_f32(ctx, x), index);
  for (const int64_t i : index) check(i >= -1 && i < x.dim(0), "gather_rows: index out of range");
  Shape shape = x.shape();
  const int64_t width = row_width(shape), count = static_cast<int64_t>(index.size());
  shape[0] = count;
  const Tensor y = ctx.empty(shape), device_index = ctx.upload(index);
  ctx.device.gather_rows({ctx.f32(x), ctx.i64(device_index), ctx.f32(y), count, width, false});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), device_index, count, width](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) zero(ctx, t.buffer);
      ctx.device.scatter_rows({ctx.f32(dy), ctx.i64(device_index), ctx.f32(t.buffer), count, width, true});
    });
  return y;
}

Tensor scatter_rows(Context& ctx, const Tensor& x, const std::vector<int64_t>& index, int64_t rows) {
  if (any_bf16(ctx, x)) return scatter_rows(ctx, cast_to_f32(ctx, x), index, rows);
  check(static_cast<int64_t>(index.size()) == x.dim(0), "scatter_rows: one index per row");
  for (const int64_t i : index) check(i >= -1 && i < rows, "scatter_rows: index out of range");
  Shape shape = x.shape();
  const int64_t width = row_width(shape), count = x.dim(0);
  shape[0] = rows;
  const Tensor y = ctx.zeros(shape), device_index = ctx.upload(index);
  ctx.device.scatter_rows({ctx.f32(x), ctx.i64(device_index), ctx.f32(y), count, width, true});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), device_index, count, width](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      ctx.device.gather_rows(
          {ctx.f32(dy), ctx.i64(device_index), ctx.f32(t.buffer), count, width, t.accumulate});
    });
  return y;
}

void replace_rows(Context& ctx, const Tensor& y, const Tensor& x, const std::vector<int64_t>& index) {
  check(!ctx.tape && static_cast<int64_t>(index.size()) == x.dim(0),
        "replace_rows: one index per row, outside of training");
  for (const int64_t i : index) check(i >= 0 && i < y.dim(0), "replace_rows: index out of range");
  const Tensor device_index = ctx.upload(index);
  ctx.device.scatter_rows(
      {ctx.f32(x), ctx.i64(device_index), ctx.f32(y), x.dim(0), row_width(x.shape()), false});
}

Tensor pick(Context& ctx, const Tensor& x, const std::vector<int64_t>& index) {
  if (any_bf16(ctx, x)) return pick(ctx, cast_to_f32(ctx, x), index);
  check(x.rank() == 2 && static_cast<int64_t>(index.size()) == x.dim(0),
        "pick: one index per row of a matrix");
  const int64_t rows = x.dim(0), cols = x.dim(1);
  for (const int64_t i : index) check(i >= 0 && i < cols, "pick: index out of range");
  const Tensor y = ctx.empty({rows}), device_index = ctx.upload(index);
  ctx.device.pick({ctx.f32(x), ctx.i64(device_index), ctx.f32(y), rows, cols});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), device_index, rows, cols](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) zero(ctx, t.buffer);
      ctx.device.pick_backward({ctx.f32(dy), ctx.i64(device_index), ctx.f32(t.buffer), rows, cols});
    });
  return y;
}

Tensor scale_rows(Context& ctx, const Tensor& x, const Tensor& w) {
  if (any_bf16(ctx, x, w)) return scale_rows(ctx, cast_to_f32(ctx, x), cast_to_f32(ctx, w));
  const int64_t rows = x.dim(0), width = row_width(x.shape());
  check(w.count() == rows && w.id() != x.id(), "scale_rows: one factor per row, from another tensor");
  Tensor y = ctx.empty(x.shape());
  ctx.device.scale_rows({ctx.f32(x), ctx.f32(w), ctx.f32(y), rows, width, false});
  if (!ctx.any_needs(x, w)) return y;
  ctx.tape->record(y, [ctx, x, w, rows, width](const Tensor& dy) {
    if (ctx.needs(x)) {
      const auto t = ctx.tape->target(x);
      ctx.device.scale_rows({ctx.f32(dy), ctx.f32(w), ctx.f32(t.buffer), rows, width, t.accumulate});
    }
    if (ctx.needs(w)) {
      const auto t = ctx.tape->target(w);
      ctx.device.row_dots({ctx.f32(dy), ctx.f32(x), ctx.f32(t.buffer), rows, width, t.accumulate});
    }
  });
  return y;
}

Tensor row_norms(Context& ctx, const Tensor& x, bool inverse) {
  if (any_bf16(ctx, x)) return row_norms(ctx, cast_to_f32(ctx, x), inverse);
  Tensor y = ctx.empty({x.dim(0)});
  ctx.device.row_norms({ctx.f32(x), ctx.f32(y), x.dim(0), row_width(x.shape()), inverse});
  return y;
}

namespace {

Tensor total(Context& ctx, const Tensor& x, double factor) {
  if (any_bf16(ctx, x)) return total(ctx, cast_to_f32(ctx, x), factor);
  const Tensor y = ctx.empty({});
  ctx.device.sum({ctx.f32(x), ctx.f32(y), x.count(), factor});
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), factor](const Tensor& dy) {
      const Tensor dx = ctx.empty(to.shape);
      ctx.device.fill_from({ctx.f32(dy), ctx.f32(dx), dx.count(), factor});
      ctx.tape->pass(to, dx);
    });
  return y;
}

}  // namespace

Tensor sum(Context& ctx, const Tensor& x) { return total(ctx, x, 1.0); }
Tensor mean(Context& ctx, const Tensor& x) { return total(ctx, x, 1.0 / static_cast<double>(x.count())); }

Tensor segment_sum(Context& ctx, const Tensor& x, const std::vector<int64_t>& starts) {
  check(!starts.empty() && starts.front() >= 0 && starts.back() <= x.dim(0) &&
            std::is_sorted(starts.begin(), starts.end()),
        "segment_sum: starts are rows in ascending order");
  std::vector<int64_t> index(static_cast<size_t>(x.dim(0)), -1);
  for (size_t g = 0; g + 1 < starts.size(); ++g)
    for (int64_t i = starts[g]; i < starts[g + 1]; ++i)
      index[static_cast<size_t>(i)] = static_cast<int64_t>(g);
  return scatter_rows(ctx, x, index, static_cast<int64_t>(starts.size()) - 1);
}

}  // namespace makar::ops
