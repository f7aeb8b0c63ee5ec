#include "optim/gradient_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace makar {

double gradient_norm(ThreadPool& pool, const ParameterSet& parameters) {
  constexpr int64_t kChunk = 2048;
  struct Piece {
    const float* data;
    int64_t count;
  };
  std::vector<Piece> pieces;
  for (const auto& p : parameters.all()) {
    if (!p->trainable || p->buffer || !p->grad.defined()) continue;
    for (int64_t i = 0; i < p->grad.count(); i += kChunk)
      pieces.push_back({p->grad.f32() + i, std::min(kChunk, p->grad.count() - i)});
  }
  std::vector<double> sums(pieces.size());
  pool.for_ranges(static_cast<int64_t>(pieces.size()), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces[static_cast<size_t>(i)];
      sums[static_cast<size_t>(i)] = kernels::cpu().sum_squares(piece.data, piece.count);
    }
  });
  double total = 0;
  for (const double s : sums) total += s;
  return std::sqrt(total);
}

double clip_factor(double norm, double most) { return most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0; }

}  // namespace makar
