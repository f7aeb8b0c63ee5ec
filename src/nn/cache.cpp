#include "nn/cache.h"

#include <algorithm>
#include <cstring>

#include "nn/batch.h"

namespace makar {

KvCache::Rows& KvCache::append(size_t slot, int64_t layer, const Tensor& k, const Tensor& v, int64_t start,
                               int64_t count) {
  Rows& rows = slots_.at(slot).self.at(static_cast<size_t>(layer));
  const int64_t width = k.dim(1), need = rows.rows + count;
  const auto grow = [&](Tensor& t) {
    if (t.defined() && t.dim(0) >= need) return;
    Tensor bigger = Tensor::empty({std::max<int64_t>(need * 3 / 2, 32), width});
    if (rows.rows) std::memcpy(bigger.f32(), t.f32(), sizeof(float) * static_cast<size_t>(rows.rows * width));
    t = bigger;
  };
  grow(rows.k);
  grow(rows.v);
  std::copy_n(k.f32() + start * width, count * width, rows.k.f32() + rows.rows * width);
  std::copy_n(v.f32() + start * width, count * width, rows.v.f32() + rows.rows * width);
  rows.rows = need;
  return rows;
}

void KvCache::truncate(size_t slot, int64_t rows) {
  for (Rows& layer : slots_.at(slot).self) layer.rows = std::min(layer.rows, rows);
}

void Batch::add(const std::vector<int64_t>& ids, int64_t first_position) {
  sequences.push_back({rows(), static_cast<int64_t>(ids.size()), 0, sequences.size()});
  for (size_t i = 0; i < ids.size(); ++i) {
    tokens.push_back(ids[i]);
    positions.push_back(first_position + static_cast<int64_t>(i));
  }
}

}  // namespace makar
