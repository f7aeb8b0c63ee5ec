// Rows of the op table: shape, gather, scatter, reductions.
#include "ops/conv.h"
#include "ops/op_table.h"
#include "ops/shape.h"

namespace makar::test {
namespace {

Array reshaped(const Array& x, const Shape& shape) {
  Array y(shape);
  y.v = x.v;
  return y;
}

// Columns [begin, end) of the last dimension.
Array columns(const Array& x, int64_t begin, int64_t end) {
  Shape shape = x.shape;
  const int64_t n = x.dim(-1), width = end - begin;
  shape[-1] = width;
  Array y(shape);
  for (int64_t i = 0; i < y.count(); ++i) y[i] = x[i / width * n + begin + i % width];
  return y;
}
Array rows_of(const Array& x, int64_t begin, int64_t end) {
  Shape shape = x.shape;
  const int64_t width = x.count() / x.dim(0);
  shape[0] = end - begin;
  Array y(shape);
  for (int64_t i = 0; i < y.count(); ++i) y[i] = x[begin * width + i];
  return y;
}

void add_gathers(std::vector<OpRow>& rows, const std::string& suffix, int64_t n, int64_t width) {
  std::vector<int64_t> index;
  for (int64_t i = 0; i < n + 5; ++i) index.push_back(i % 7 == 3 ? -1 : i * i % n);
  rows.push_back(
      {"gather_rows" + suffix,
       {{{n, width}}},
       [=](Context& ctx, const Tensors& in) { return Tensors{ops::gather_rows(ctx, in[0], index)}; },
       [=](const Arrays& in) {
         Array y({n + 5, width});
         for (int64_t i = 0; i < y.count(); ++i) {
           const int64_t from = index[static_cast<size_t>(i / width)];
           y[i] = from < 0 ? 0.0 : in[0][from * width + i % width];
         }
         return Arrays{y};
       }});
  rows.push_back(
      {"scatter_rows" + suffix,
       {{{n + 5, width}}},
       [=](Context& ctx, const Tensors& in) { return Tensors{ops::scatter_rows(ctx, in[0], index, n)}; },
       [=](const Arrays& in) {
         Array y({n, width});
         for (int64_t i = 0; i < in[0].count(); ++i) {
           const int64_t to = index[static_cast<size_t>(i / width)];
           if (to >= 0) y[to * width + i % width] += in[0][i];
         }
         return Arrays{y};
       }});
  rows.push_back({"scale_rows" + suffix,
                  {{{n, width}}, {{n}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::scale_rows(ctx, in[0], in[1])}; },
                  [=](const Arrays& in) {
                    Array y({n, width});
                    for (int64_t i = 0; i < y.count(); ++i) y[i] = in[0][i] * in[1][i / width];
                    return Arrays{y};
                  }});
}

void add_reduction(std::vector<OpRow>& rows, const std::string& name, const Shape& shape, bool mean) {
  rows.push_back({name,
                  {{shape, 1.0, 0.5}},
                  [mean](Context& ctx, const Tensors& in) {
                    return Tensors{mean ? ops::mean(ctx, in[0]) : ops::sum(ctx, in[0])};
                  },
                  [mean](const Arrays& in) {
                    Array y{Shape{}};
                    for (const double x : in[0].v) y[0] += mean ? x / static_cast<double>(in[0].count()) : x;
                    return Arrays{y};
                  }});
}

}  // namespace

void add_shape_rows(std::vector<OpRow>& rows) {
  rows.push_back({"reshape",
                  {{{4, 6}}},
                  [](Context& ctx, const Tensors& in) {
                    return Tensors{ops::reshape(ctx, in[0], {2, 3, 4})};
                  },
                  [](const Arrays& in) {
                    return Arrays{reshaped(in[0], {2, 3, 4})};
                  }});
  rows.push_back({"concat_rows",
                  {{{2, 5}}, {{3, 5}}, {{1, 5}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::concat(ctx, in, 0)}; },
                  [](const Arrays& in) {
                    Array y({6, 5});
                    y.v.clear();
                    for (const Array& x : in) y.v.insert(y.v.end(), x.v.begin(), x.v.end());
                    return Arrays{y};
                  }});
  rows.push_back({"concat_columns",
                  {{{2, 3, 4}}, {{2, 3, 2}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::concat(ctx, in, -1)}; },
                  [](const Arrays& in) {
                    Array y({2, 3, 6});
                    for (int64_t i = 0; i < y.count(); ++i)
                      y[i] = i % 6 < 4 ? in[0][i / 6 * 4 + i % 6] : in[1][i / 6 * 2 + i % 6 - 4];
                    return Arrays{y};
                  }});
  rows.push_back({"split_columns",
                  {{{3, 9}}},
                  [](Context& ctx, const Tensors& in) {
                    return ops::split(ctx, in[0], {4, 2, 3}, -1);
                  },
                  [](const Arrays& in) {
                    return Arrays{columns(in[0], 0, 4), columns(in[0], 4, 6), columns(in[0], 6, 9)};
                  }});
  rows.push_back({"split_rows",
                  {{{6, 2, 2}}},
                  [](Context& ctx, const Tensors& in) {
                    return ops::split(ctx, in[0], {1, 3, 2}, 0);
                  },
                  [](const Arrays& in) {
                    return Arrays{rows_of(in[0], 0, 1), rows_of(in[0], 1, 4), rows_of(in[0], 4, 6)};
                  }});
  rows.push_back({"split_one_unused",
                  {{{3, 9}}},
                  [](Context& ctx, const Tensors& in) {
                    auto parts = ops::split(ctx, in[0], {4, 2, 3}, -1);
                    return Tensors{parts[0], parts[2]};
                  },
                  [](const Arrays& in) {
                    return Arrays{columns(in[0], 0, 4), columns(in[0], 6, 9)};
                  }});
  rows.push_back({"transpose",
                  {{{5, 3}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::transpose(ctx, in[0])}; },
                  [](const Arrays& in) {
                    Array y({3, 5});
                    for (int64_t i = 0; i < 15; ++i) y[i] = in[0][i % 5 * 3 + i / 5];
                    return Arrays{y};
                  }});
  add_gathers(rows, "", 6, 5);
  add_gathers(rows, "_large", 90, 130);
  rows.push_back({"pick",
                  {{{4, 6}}},
                  [](Context& ctx, const Tensors& in) {
                    return Tensors{ops::pick(ctx, in[0], {5, 0, 2, 2})};
                  },
                  [](const Arrays& in) {
                    Array y({4});
                    y.v = {in[0][5], in[0][6], in[0][14], in[0][20]};
                    return Arrays{y};
                  }});
  add_reduction(rows, "sum", {7, 5}, false);
  add_reduction(rows, "mean", {7, 5}, true);
  add_reduction(rows, "sum_large", {100, 130}, false);
  rows.push_back({"segment_sum",
                  {{{7, 3}}},
                  [](Context& ctx, const Tensors& in) {
                    return Tensors{ops::segment_sum(ctx, in[0], {1, 3, 3, 7})};
                  },
                  [](const Arrays& in) {
                    Array y({3, 3});
                    for (int64_t i = 1; i < 7; ++i)
                      for (int64_t c = 0; c < 3; ++c) y[(i < 3 ? 0 : 2) * 3 + c] += in[0][i * 3 + c];
                    return Arrays{y};
                  }});
  rows.push_back({"unfold",
                  {{{1, 2, 4, 5}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::unfold(ctx, in[0], 2, 1, 1)}; },
                  [](const Arrays& in) {
                    Array y({5 * 6, 8});
                    for (int64_t i = 0; i < y.count(); ++i) {
                      const int64_t patch = i / 8, channel = i % 8 / 4;
                      const int64_t r = patch / 6 - 1 + i % 4 / 2, c = patch % 6 - 1 + i % 2;
                      if (r >= 0 && r < 4 && c >= 0 && c < 5) y[i] = in[0][(channel * 4 + r) * 5 + c];
                    }
                    return Arrays{y};
                  }});
  rows.push_back({"fold",
                  {{{2 * 2 * 3, 2 * 16}}},
                  [](Context& ctx, const Tensors& in) {
                    return Tensors{ops::fold(ctx, in[0], {2, 2, 4, 6}, 4, 2, 1)};
                  },
                  [](const Arrays& in) {  // a transposed convolution doubles height and width
                    Array y({2, 2, 4, 6});
                    for (int64_t i = 0; i < 12 * 32; ++i) {
                      const int64_t patch = i / 32, image = patch / 6, channel = i % 32 / 16;
                      const int64_t r = patch % 6 / 3 * 2 - 1 + i % 16 / 4, c = patch % 3 * 2 - 1 + i % 4;
                      if (r >= 0 && r < 4 && c >= 0 && c < 6)
                        y[((image * 2 + channel) * 4 + r) * 6 + c] += in[0][i];
                    }
                    return Arrays{y};
                  }});
}

}  // namespace makar::test
