// The largest singular values and vectors of a sparse matrix by subspace iteration with a random start (Halko
// et al., 2011). The bits do not depend on the number of threads.
#pragma once
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace makar {

struct SparseMatrix {
  size_t rows = 0, columns = 0;
  std::vector<uint64_t> first = {0};  // entry of each row, and the end of the entries
  std::vector<uint32_t> column;
  std::vector<float> value;

  void end_row() { first.push_back(column.size()), ++rows; }
  SparseMatrix transposed() const;
};

struct Svd {
  std::vector<double> values;          // descending
  std::vector<std::vector<double>> u;  // [rank][rows]; the sign makes the largest component positive
};
Svd truncated_svd(const SparseMatrix& matrix, size_t rank, uint64_t seed, ThreadPool& pool,
                  int iterations = 6);

// Eigenvalues, descending, and eigenvectors ([i] belongs to value i) of a symmetric matrix, by Jacobi
// rotations.
void symmetric_eigen(std::vector<std::vector<double>> matrix, std::vector<double>& values,
                     std::vector<std::vector<double>>& vectors);

}  // namespace makar
