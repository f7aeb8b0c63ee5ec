// Keys and values of what was already computed: a slot a sequence, a growing buffer a layer. Rows are f32, so
// a cached forward has the bits of an uncached one.
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace makar {

class KvCache {
 public:
  KvCache(int64_t layers, size_t slots) : slots_(slots) {
    for (auto& s : slots_)
      s.self.resize(static_cast<size_t>(layers)), s.cross.resize(static_cast<size_t>(layers));
  }

  struct Rows {
    Tensor k, v;  // [capacity, kv width]
    int64_t rows = 0;
  };
  // Adds rows to the keys and values of one layer of one sequence.
  Rows& append(size_t slot, int64_t layer, const Tensor& k, const Tensor& v, int64_t start, int64_t count);
  // Cross-attention: written once by whoever sees the encoder first.
  Rows& cross(size_t slot, int64_t layer) { return slots_.at(slot).cross.at(static_cast<size_t>(layer)); }

  int64_t length(size_t slot) const {
    return slots_.at(slot).self.empty() ? 0 : slots_.at(slot).self[0].rows;
  }
  // Forgets everything after the first `rows` tokens.
  void truncate(size_t slot, int64_t rows);

 private:
  struct Slot {
    std::vector<Rows> self, cross;
  };
  std::vector<Slot> slots_;
};

}  // namespace makar
