#include "ops/shape.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/kernels.h"
#include "ops/ranges.h"

namespace makar::ops {
namespace {

// x seen as [outer, inner]: along axis 0 the parts are blocks of rows (outer 1), along -1 slices of each row.
struct Cut {
  int64_t outer;
  std::vector<int64_t> widths;  // floats of each part in one outer row
  int64_t total;
};

Cut cut_of(const std::vector<Shape>& parts, int axis) {
  check(axis == 0 || axis == -1, "concat and split work along the first or the last dimension");
  Cut cut{1, {}, 0};
  const int64_t last = parts[0].rank() ? parts[0][-1] : 1;
  cut.outer = axis == 0 ? 1 : (last ? parts[0].count() / last : 0);
  for (const Shape& p : parts) cut.widths.push_back(axis == 0 ? p.count() : p[-1]);
  cut.total = std::accumulate(cut.widths.begin(), cut.widths.end(), int64_t{0});
  return cut;
}

void add_into(const Tape::Target& t, int64_t at, const float* from, int64_t n) {
  float* to = t.buffer.f32() + at;
  if (t.accumulate)
    kernels::cpu().add(to, from, to, n);
  else
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(n));
}

}  // namespace

Tensor reshape(Context& ctx, const Tensor& x, const Shape& shape) {
  Tensor y = x.reshape(shape);
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x)](const Tensor& dy) { ctx.tape->pass(to, dy.reshape(to.shape)); });
  return y;
}

Tensor concat(Context& ctx, const std::vector<Tensor>& parts, int axis) {
  check(!parts.empty(), "concat of nothing");
  std::vector<Shape> shapes;
  for (const Tensor& p : parts) shapes.push_back(p.shape());
  const Cut cut = cut_of(shapes, axis);
  Shape shape = shapes[0];
  shape[axis] = 0;
  for (const Shape& s : shapes) {
    shape[axis] += s[axis];
    Shape same = s;
    same[axis] = shapes[0][axis];
    check(same == shapes[0],
          "concat: " + shapes[0].text() + " and " + s.text() + " differ in another dimension");
  }
  Tensor y = Tensor::empty(shape);
  int64_t at = 0;
  for (size_t p = 0; p < parts.size(); at += cut.widths[p], ++p)
    for (int64_t o = 0; o < cut.outer; ++o)
      std::memcpy(y.f32() + o * cut.total + at, parts[p].f32() + o * cut.widths[p],
                  sizeof(float) * static_cast<size_t>(cut.widths[p]));
  bool any = false;
  for (const Tensor& p : parts) any = any || ctx.needs(p);
  if (any)
    ctx.tape->record(y, [&ctx, keys = std::vector<Key>(parts.begin(), parts.end()), cut](const Tensor& dy) {
      int64_t from = 0;
      for (size_t p = 0; p < keys.size(); from += cut.widths[p], ++p) {
        if (!ctx.needs(keys[p])) continue;
        const auto t = ctx.tape->target(keys[p]);
        for (int64_t o = 0; o < cut.outer; ++o)
          add_into(t, o * cut.widths[p], dy.f32() + o * cut.total + from, cut.widths[p]);
      }
    });
  return y;
}

std::vector<Tensor> split(Context& ctx, const Tensor& x, const std::vector<int64_t>& sizes, int axis) {
  std::vector<Shape> shapes;
  for (const int64_t size : sizes) {
    shapes.push_back(x.shape());
    shapes.back()[axis] = size;
  }
  const Cut cut = cut_of(shapes, axis);
  check(cut.outer * cut.total == x.count(), "split: sizes do not add up");
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (size_t p = 0; p < sizes.size(); at += cut.widths[p], ++p) {
    parts.push_back(Tensor::empty(shapes[p]));
    for (int64_t o = 0; o < cut.outer; ++o)
      std::memcpy(parts[p].f32() + o * cut.widths[p], x.f32() + o * cut.total + at,
                  sizeof(float) * static_cast<size_t>(cut.widths[p]));
  }
  if (ctx.needs(x))
    ctx.tape->record(parts, [&ctx, to = Key(x), cut](std::span<const Tensor> g) {
      auto t = ctx.tape->target(to);
      if (!t.accumulate) std::fill_n(t.buffer.f32(), t.buffer.count(), 0.0f), t.accumulate = true;
      int64_t from = 0;
      for (size_t p = 0; p < g.size(); from += cut.widths[p], ++p)
        if (g[p].defined())
          for (int64_t o = 0; o < cut.outer; ++o)
            add_into(t, o * cut.total + from, g[p].f32() + o * cut.widths[p], cut.widths[p]);
    });
  return parts;
}

Tensor transpose(Context& ctx, const Tensor& x) {
  check(x.rank() == 2, "transpose takes a matrix");
  const int64_t rows = x.dim(0), cols = x.dim(1);
  Tensor y = Tensor::empty({cols, rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) y.f32()[j * rows + i] = x.f32()[i * cols + j];
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), rows, cols](const Tensor& dy) {
      Tensor dx = Tensor::empty({rows, cols});
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) dx.f32()[i * cols + j] = dy.f32()[j * rows + i];
      ctx.tape->pass(to, dx);
    });
  return y;
}

namespace {

// out[index[i]] += x[i]; threads own ranges of columns, so every sum keeps the order of i.
void scatter_add(Context& ctx, const float* x, const std::vector<int64_t>& index, int64_t width, float* out) {
  const int64_t n = static_cast<int64_t>(index.size());
  const auto body = [&](int64_t c0, int64_t c1) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = index[static_cast<size_t>(i)];
      if (row < 0) continue;
      float* to = out + row * width;
      const float* from = x + i * width;
      for (int64_t c = c0; c < c1; ++c) to[c] += from[c];
    }
  };
  if (n * width <= kGrain) return body(0, width);
  ctx.pool.for_ranges(width, 64, body);
}

void gather_into(Context& ctx, const float* x, const std::vector<int64_t>& index, int64_t width, float* out,
                 bool accumulate) {
  each_rows(ctx, static_cast<int64_t>(index.size()), width, [&](int64_t r0, int64_t r1) {
    for (int64_t i = r0; i < r1; ++i) {
      const int64_t row = index[static_cast<size_t>(i)];
      float* to = out + i * width;
      if (row < 0) {
        if (!accumulate) std::fill_n(to, width, 0.0f);
      } else if (accumulate) {
        kernels::cpu().add(to, x + row * width, to, width);
      } else {
        std::memcpy(to, x + row * width, sizeof(float) * static_cast<size_t>(width));
      }
    }
  });
}

int64_t row_width(const Shape& shape) { return shape[0] ? shape.count() / shape[0] : 0; }

}  // namespace

Tensor gather_rows(Context& ctx, const Tensor& x, const std::vector<int64_t>& index) {
  for (const int64_t i : index) check(i >= -1 && i < x.dim(0), "gather_rows: index out of range");
  Shape shape = x.shape();
  const int64_t width = row_width(shape);
  shape[0] = static_cast<int64_t>(index.size());
  Tensor y = Tensor::empty(shape);
  gather_into(ctx, x.f32(), index, width, y.f32(), false);
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), index, width](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) std::fill_n(t.buffer.f32(), t.buffer.count(), 0.0f);
      scatter_add(ctx, dy.f32(), index, width, t.buffer.f32());
    });
  return y;
}

Tensor scatter_rows(Context& ctx, const Tensor& x, const std::vector<int64_t>& index, int64_t rows) {
  check(static_cast<int64_t>(index.size()) == x.dim(0), "scatter_rows: one index a row");
  for (const int64_t i : index) check(i >= -1 && i < rows, "scatter_rows: index out of range");
  Shape shape = x.shape();
  const int64_t width = row_width(shape);
  shape[0] = rows;
  Tensor y = Tensor::zeros(shape);
  scatter_add(ctx, x.f32(), index, width, y.f32());
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), index, width](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      gather_into(ctx, dy.f32(), index, width, t.buffer.f32(), t.accumulate);
    });
  return y;
}

Tensor pick(Context& ctx, const Tensor& x, const std::vector<int64_t>& index) {
  const int64_t rows = x.dim(0), cols = x.dim(1);
  check(x.rank() == 2 && static_cast<int64_t>(index.size()) == rows, "pick: one index a row of a matrix");
  Tensor y = Tensor::empty({rows});
  for (int64_t i = 0; i < rows; ++i) {
    check(index[static_cast<size_t>(i)] >= 0 && index[static_cast<size_t>(i)] < cols,
          "pick: index out of range");
    y.f32()[i] = x.f32()[i * cols + index[static_cast<size_t>(i)]];
  }
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), index, cols](const Tensor& dy) {
      const auto t = ctx.tape->target(to);
      if (!t.accumulate) std::fill_n(t.buffer.f32(), t.buffer.count(), 0.0f);
      for (size_t i = 0; i < index.size(); ++i)
        t.buffer.f32()[static_cast<int64_t>(i) * cols + index[i]] += dy.f32()[i];
    });
  return y;
}

Tensor scale_rows(Context& ctx, const Tensor& x, const Tensor& w) {
  const int64_t rows = x.dim(0), width = row_width(x.shape());
  check(w.count() == rows && w.id() != x.id(), "scale_rows: one factor a row, from another tensor");
  const auto& k = kernels::cpu();
  Tensor y = Tensor::empty(x.shape());
  each_rows(ctx, rows, width, [&](int64_t r0, int64_t r1) {
    for (int64_t i = r0; i < r1; ++i)
      k.scale(x.f32() + i * width, w.f32()[i], y.f32() + i * width, width, false);
  });
  if (!ctx.any_needs(x, w)) return y;
  ctx.tape->record(y, [&ctx, &k, x, w, rows, width](const Tensor& dy) {
    const bool need_x = ctx.needs(x), need_w = ctx.needs(w);
    const auto dx = need_x ? ctx.tape->target(x) : Tape::Target{};
    const auto dw = need_w ? ctx.tape->target(w) : Tape::Target{};
    each_rows(ctx, rows, width, [&](int64_t r0, int64_t r1) {
      for (int64_t i = r0; i < r1; ++i) {
        if (need_x)
          k.scale(dy.f32() + i * width, w.f32()[i], dx.buffer.f32() + i * width, width, dx.accumulate);
        if (need_w) {
          const float d = k.dot(dy.f32() + i * width, x.f32() + i * width, width);
          dw.buffer.f32()[i] = dw.accumulate ? dw.buffer.f32()[i] + d : d;
        }
      }
    });
  });
  return y;
}

namespace {

// Sums in fixed chunks, then over the chunks, in double: one order for any number of threads.
double chunked_sum(const Tensor& x) {
  constexpr int64_t kRun = 4096;
  double total = 0;
  for (int64_t i = 0; i < x.count(); i += kRun)
    total += kernels::cpu().sum(x.f32() + i, std::min(kRun, x.count() - i));
  return total;
}

Tensor total(Context& ctx, const Tensor& x, double factor) {
  const float value = static_cast<float>(chunked_sum(x) * factor);
  Tensor y = Tensor::full({}, value);
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), factor](const Tensor& dy) {
      ctx.tape->pass(to, Tensor::full(to.shape, static_cast<float>(dy.f32()[0] * factor)));
    });
  return y;
}

}  // namespace

Tensor sum(Context& ctx, const Tensor& x) { return total(ctx, x, 1.0); }
Tensor mean(Context& ctx, const Tensor& x) { return total(ctx, x, 1.0 / static_cast<double>(x.count())); }

Tensor segment_sum(Context& ctx, const Tensor& x, const std::vector<int64_t>& starts) {
  check(!starts.empty() && starts.front() >= 0 && starts.back() <= x.dim(0) &&
            std::is_sorted(starts.begin(), starts.end()),
        "segment_sum: starts are rows in rising order");
  std::vector<int64_t> index(static_cast<size_t>(x.dim(0)), -1);
  for (size_t g = 0; g + 1 < starts.size(); ++g)
    for (int64_t i = starts[g]; i < starts[g + 1]; ++i)
      index[static_cast<size_t>(i)] = static_cast<int64_t>(g);
  return scatter_rows(ctx, x, index, static_cast<int64_t>(starts.size()) - 1);
}

}  // namespace makar::ops
