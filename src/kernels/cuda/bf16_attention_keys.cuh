// Where attention reads keys and values from.
#pragma once
#include "kernels/cuda/bf16_attention.cuh"

namespace makar::kernels::cuda {

// Keys and values of one head as matrices.
struct MatrixKeys {
  const Bf16 *k, *v;
  template <int kDim, int kCopiers>
  __device__ void fetch(const AttentionShape& shape, const SequenceRows& s, int head, int j0, Tile<kDim> keys,
                        Tile<kDim> values) const {
    const int dim = static_cast<int>(shape.head_dim);
    const int64_t stride = shape.kv_heads * dim, at = s.kv_start * stride + head * dim;
    keys.template copy<kKeys, kCopiers>(k + at, stride, j0, static_cast<int>(s.kv_rows), dim);
    values.template copy<kKeys, kCopiers>(v + at, stride, j0, static_cast<int>(s.kv_rows), dim);
  }
};
// The same in pages of kKeyTile rows of bf16.
struct PageKeys {
  CacheLayer cache;
  template <int kDim, int kCopiers>
  __device__ void fetch(const AttentionShape& shape, const SequenceRows& s, int head, int j0, Tile<kDim> keys,
                        Tile<kDim> values) const {
    const int dim = static_cast<int>(shape.head_dim), rows = static_cast<int>(s.kv_rows);
    const auto* nowhere = reinterpret_cast<const Bf16*>(cache.pages);  // a valid address from which nothing is copied
    for (int part = 0; part < kKeys; part += kPart) {
      const int j = j0 + part;
      const std::byte* page = j < rows ? cache.pages[s.first_page + j / kKeyTile] : nullptr;
      const int left = page ? rows - j : 0;  // released pages are not read
      const int64_t at = j % kKeyTile * dim;
      const auto* k = page ? reinterpret_cast<const Bf16*>(page + cache.k_offset + head * cache.k_head) + at : nowhere;
      const auto* v = page ? reinterpret_cast<const Bf16*>(page + cache.v_offset + head * cache.v_head) + at : nowhere;
      Tile<kDim>{keys.base + part * Tile<kDim>::kRowBytes}.template copy<kPart, kCopiers>(k, dim, 0, left, dim);
      Tile<kDim>{values.base + part * Tile<kDim>::kRowBytes}.template copy<kPart, kCopiers>(v, dim, 0, left, dim);
    }
  }

 private:
  static constexpr int kPart = 32;  // keys per copy; divides tiles and pages
  static_assert(kKeys % kPart == 0 && kKeyTile % kPart == 0);
};

}  // namespace makar::kernels::cuda
