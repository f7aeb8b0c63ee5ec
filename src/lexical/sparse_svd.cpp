#include "lexical/sparse_svd.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace makar {

SparseMatrix SparseMatrix::transposed() const {
  SparseMatrix out;
  out.rows = columns, out.columns = rows;
  out.first.assign(columns + 1, 0);
  for (const uint32_t c : column) ++out.first[c + 1];
  for (size_t i = 1; i < out.first.size(); ++i) out.first[i] += out.first[i - 1];
  out.column.resize(column.size()), out.value.resize(value.size());
  std::vector<uint64_t> at(out.first.begin(), out.first.end() - 1);
  for (uint32_t r = 0; r < rows; ++r)
    for (uint64_t i = first[r]; i < first[r + 1]; ++i) {
      const uint64_t to = at[column[i]]++;
      out.column[to] = r, out.value[to] = value[i];
    }
  return out;
}

namespace {

// A dense matrix of `width` numbers per row.
struct Block {
  size_t rows, width;
  std::vector<double> data;
  Block(size_t r, size_t w) : rows(r), width(w), data(r * w, 0.0) {}
  double* row(size_t i) { return data.data() + i * width; }
  const double* row(size_t i) const { return data.data() + i * width; }
};

Block multiply(const SparseMatrix& a, const Block& x, ThreadPool& pool) {
  Block out(a.rows, x.width);
  pool.for_ranges(static_cast<int64_t>(a.rows), 64, [&](int64_t from, int64_t end) {
    for (auto r = static_cast<size_t>(from); r < static_cast<size_t>(end); ++r) {
      double* to = out.row(r);
      for (uint64_t i = a.first[r]; i < a.first[r + 1]; ++i) {
        const double* row = x.row(a.column[i]);
        const auto v = static_cast<double>(a.value[i]);
        for (size_t j = 0; j < x.width; ++j) to[j] += v * row[j];
      }
    }
  });
  return out;
}

// x^T x, summed in fixed chunks of rows, so that the bits do not depend on the number of threads.
std::vector<std::vector<double>> gram(const Block& x, ThreadPool& pool) {
  constexpr size_t kChunkRows = 2048;
  const size_t chunks = (x.rows + kChunkRows - 1) / kChunkRows, w = x.width;
  std::vector<std::vector<double>> sums(chunks, std::vector<double>(w * w, 0.0));
  pool.run(static_cast<int64_t>(chunks), [&](int64_t p) {
    auto& sum = sums[static_cast<size_t>(p)];
    const size_t from = static_cast<size_t>(p) * kChunkRows, end = std::min(x.rows, from + kChunkRows);
    for (size_t r = from; r < end; ++r)
      for (size_t i = 0; i < w; ++i)
        for (size_t j = 0; j < w; ++j) sum[i * w + j] += x.row(r)[i] * x.row(r)[j];
  });
  std::vector<std::vector<double>> out(w, std::vector<double>(w, 0.0));
  for (const auto& sum : sums)
    for (size_t i = 0; i < w; ++i)
      for (size_t j = 0; j < w; ++j) out[i][j] += sum[i * w + j];
  return out;
}

// x times the small matrix whose column k is vectors[k] * scale[k].
Block rotate(const Block& x, const std::vector<std::vector<double>>& vectors,
             const std::vector<double>& scale, ThreadPool& pool) {
  Block out(x.rows, vectors.size());
  pool.for_ranges(static_cast<int64_t>(x.rows), 256, [&](int64_t from, int64_t end) {
    for (auto r = static_cast<size_t>(from); r < static_cast<size_t>(end); ++r)
      for (size_t k = 0; k < vectors.size(); ++k) {
        double sum = 0;
        for (size_t j = 0; j < x.width; ++j) sum += x.row(r)[j] * vectors[k][j];
        out.row(r)[k] = sum * scale[k];
      }
  });
  return out;
}

// An orthonormal basis of the columns, in descending order of their `singular_values`.
Block orthonormal(const Block& x, ThreadPool& pool, std::vector<double>& singular_values) {
  std::vector<double> values;
  std::vector<std::vector<double>> vectors;
  symmetric_eigen(gram(x, pool), values, vectors);
  singular_values.clear();
  std::vector<double> scale;
  for (const double v : values) {
    singular_values.push_back(std::sqrt(std::max(0.0, v)));
    scale.push_back(singular_values.back() > 1e-9 * singular_values.front() ? 1 / singular_values.back() : 0);
  }
  return rotate(x, vectors, scale, pool);
}

}  // namespace

void symmetric_eigen(std::vector<std::vector<double>> a, std::vector<double>& values,
                     std::vector<std::vector<double>>& vectors) {
  constexpr int kMaxSweeps = 60;
  const size_t n = a.size();
  std::vector<std::vector<double>> v(n, std::vector<double>(n, 0.0));  // rows are the vectors
  for (size_t i = 0; i < n; ++i) v[i][i] = 1;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double off_diagonal = 0, total = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        total += a[i][j] * a[i][j], off_diagonal += i == j ? 0 : a[i][j] * a[i][j];
    if (off_diagonal <= 1e-24 * total) break;
    for (size_t p = 0; p + 1 < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p][q] * a[p][q] <= 1e-32 * std::fabs(a[p][p] * a[q][q])) continue;
        const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (size_t k = 0; k < n; ++k) {
          const double x = a[p][k], y = a[q][k];
          a[p][k] = c * x - s * y, a[q][k] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = a[k][p], y = a[k][q];
          a[k][p] = c * x - s * y, a[k][q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = v[p][k], y = v[q][k];
          v[p][k] = c * x - s * y, v[q][k] = s * x + c * y;
        }
      }
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return a[x][x] > a[y][y]; });
  values.clear(), vectors.clear();
  for (const size_t i : order) values.push_back(a[i][i]), vectors.push_back(v[i]);
}

Svd truncated_svd(const SparseMatrix& a, size_t rank, uint64_t seed, ThreadPool& pool, int iterations) {
  rank = std::min({rank, a.rows, a.columns});
  constexpr size_t kOversampling = 10;  // extra columns, which make the iteration converge faster
  const size_t width = std::min({rank + kOversampling, a.rows, a.columns});
  const SparseMatrix t = a.transposed();
  const Rng rng(seed, Purpose::kInit);
  Block x(a.columns, width);
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<double>(rng.normal(i));
  std::vector<double> singular_values;
  Block left = orthonormal(multiply(a, x, pool), pool, singular_values);
  for (int i = 0; i < iterations; ++i) {
    x = orthonormal(multiply(t, left, pool), pool, singular_values);
    left = orthonormal(multiply(a, x, pool), pool, singular_values);
  }
  Svd out;
  for (size_t k = 0; k < rank; ++k) {
    out.values.push_back(singular_values[k]);
    auto& u = out.u.emplace_back(a.rows);
    size_t largest = 0;
    for (size_t r = 0; r < a.rows; ++r) {
      u[r] = left.row(r)[k];
      if (std::fabs(u[r]) > std::fabs(u[largest])) largest = r;
    }
    if (!u.empty() && u[largest] < 0)
      for (double& value : u) value = -value;
  }
  return out;
}

}  // namespace makar
