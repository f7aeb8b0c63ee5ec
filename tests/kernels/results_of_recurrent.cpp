#include <array>
#include <cmath>

#include "kernels/results_of_table.h"

namespace makar::kernels::test {
namespace {

using Floats = std::vector<float>;

void add_convolutions(const Table& t, int64_t taps, int64_t n, Results& to) {
  const Floats x = spread(taps * n, 1), w = spread(taps * n, 2), bias = spread(n, 3);
  std::vector<const float*> rows;
  for (int64_t k = 0; k < taps; ++k) rows.push_back(x.data() + k * n);
  Floats y(bias.size());
  for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
    t.conv_row(rows.data(), taps, w.data(), b, y.data(), n), to.push_back({"conv_row", y});
    t.conv_step(rows.data(), taps, w.data(), b, y.data(), n), to.push_back({"conv_step", y});
  }
}

struct ScanCase {
  int64_t heads, rows, dim, states;
  bool shared_a;
};

void add_scan(const Table& t, const ScanCase& c, Results& to) {
  const std::string name = std::to_string(c.states) + " states, " + std::to_string(c.rows) + " rows";
  const int64_t columns = c.shared_a ? 1 : c.states, width = c.heads * c.dim;
  const Floats x = spread(c.rows * width, 1), b = spread(c.rows * c.states, 2),
               v = spread(c.rows * c.states, 3), d = spread(c.heads, 4), dy = spread(c.rows * width, 5);
  Floats dt = spread(c.rows * c.heads, 6), a = spread(c.heads * columns, 7), h = spread(width * c.states, 8),
         y(x.size());
  for (float& f : dt) f = 0.01f + std::fabs(f);
  for (float& f : a) f = -0.01f - std::fabs(f);
  const ScanHeads s{x.data(), dt.data(), a.data(), b.data(), v.data(), d.data(), y.data(), h.data(),
                    c.heads,  c.rows,    c.dim,    c.states, width,    c.heads,  c.states, c.shared_a};
  t.scan(s);
  to.push_back({"scan, " + name, y}), to.push_back({"state of a scan, " + name, h});
  Floats dx(x.size()), ddt(dt.size()), db(b.size()), dv(v.size()), da(a.size()), dd(d.size());
  Floats scratch(static_cast<size_t>((c.rows + 2) * c.states));
  for (int64_t head = 0; head < c.heads; ++head) {
    ScanHeads one = s;
    one.heads = 1, one.x += head * c.dim, one.dt += head, one.a += head * columns, one.d += head;
    t.scan_backward(one,
                    {dy.data() + head * c.dim, dx.data() + head * c.dim, ddt.data() + head, db.data(),
                     dv.data(), da.data() + head * columns, dd.data() + head},
                    scratch.data());
  }
  for (const Floats& gradient : {dx, ddt, db, dv, da, dd}) to.push_back({"scan_backward, " + name, gradient});
}

}  // namespace

void add_recurrent_results(const Table& t, Results& to) {
  for (const int64_t taps : {2, 3, 4, 5})
    for (const int64_t n : {1, 16, 45}) add_convolutions(t, taps, n, to);
  for (const int64_t states : {5, 16, 64, 128})
    for (const bool shared : {false, true})
      for (const int64_t rows : {1, 7}) {
        add_scan(t, {3, rows, 4, states, shared}, to);
        add_scan(t, {19, rows, 1, states, shared}, to);
      }
}

}  // namespace makar::kernels::test
