#include "nn/cache.h"

#include <algorithm>
#include <cstring>

#include "kernels/key_pages.h"

namespace makar {

using kernels::key_tile_floats;
using kernels::value_tile_floats;

KvCache::KvCache(const StackSpec& stack, size_t slots, int64_t max_pages)
    : kv_heads_(stack.block.attention.kv_heads), dim_(stack.block.attention.head_dim), max_pages_(max_pages) {
  if (const auto& cross = stack.block.cross)
    check(cross->kv_heads == kv_heads_ && cross->head_dim == dim_,
          "self- and cross-attention share their pages");
  layer_floats_ = kv_heads_ * (key_tile_floats(dim_) + value_tile_floats(dim_));
  page_floats_ = stack.layers * layer_floats_;
  for (size_t i = 0; i < slots; ++i) add();
}

size_t KvCache::add() {
  size_t slot = slots_.size();
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot] = Slot{};
  slots_[slot].used = true;
  return slot;
}

void KvCache::release(size_t slot) {
  Slot& s = slots_.at(slot);
  check(s.used, "a sequence is released once");
  for (const Page page : s.pages)
    if (page >= 0) drop(page);
  s = Slot{};
  free_slots_.push_back(slot);
}

size_t KvCache::fork(size_t slot, int64_t rows) {
  const size_t made = add();
  const Slot& from = slots_.at(slot);
  Slot& to = slots_.at(made);
  check(from.used && rows <= from.rows, "a fork shares what is there");
  to.rows = rows;
  to.cross = from.cross;
  to.pages.assign(from.pages.begin(), from.pages.begin() + pages_for(rows));
  for (const Page page : to.pages)
    if (page >= 0) keep(page);
  point(to);
  return made;
}

size_t KvCache::adopt(const std::vector<Page>& pages) {
  const size_t made = add();
  Slot& to = slots_.at(made);
  to.rows = static_cast<int64_t>(pages.size()) * kPageRows;
  to.pages = pages;
  for (const Page page : pages) keep(page);
  point(to);
  return made;
}

bool KvCache::grow(size_t slot, int64_t rows) {
  Slot& s = slots_.at(slot);
  check(s.used, "a released sequence does not grow");
  if (rows <= s.rows) return true;
  const int64_t have = static_cast<int64_t>(s.pages.size()), want = pages_for(rows);
  // The page that holds the present end is written to next: it has to be ours alone.
  const bool split = s.rows % kPageRows != 0 && users(s.pages.back()) > 1;
  if (max_pages_ > 0 && want - have + (split ? 1 : 0) > pages_free()) return false;
  if (split) {
    const Page shared = s.pages.back(), own = take();
    std::memcpy(pages_[index(own)].data.raw(), pages_[index(shared)].data.raw(),
                pages_[index(own)].data.bytes());
    s.pages.back() = own;
    drop(shared);
  }
  while (static_cast<int64_t>(s.pages.size()) < want) s.pages.push_back(take());
  s.rows = rows;
  point(s);
  return true;
}

void KvCache::truncate(size_t slot, int64_t rows) {
  Slot& s = slots_.at(slot);
  if (rows >= s.rows) return;
  while (static_cast<int64_t>(s.pages.size()) > pages_for(rows)) {
    if (s.pages.back() >= 0) drop(s.pages.back());
    s.pages.pop_back();
  }
  s.rows = rows;
  point(s);
}

void KvCache::forget_before(size_t slot, int64_t row) {
  Slot& s = slots_.at(slot);
  for (int64_t i = std::min(row / kPageRows, static_cast<int64_t>(s.pages.size())) - 1; i >= 0; --i) {
    Page& page = s.pages[static_cast<size_t>(i)];
    if (page < 0) break;
    drop(page);
    page = -1;
  }
  point(s);
}

KvCache::Page KvCache::take() {
  ++used_;
  if (!free_.empty()) {
    const Page page = free_.back();
    free_.pop_back();
    pages_[index(page)].users = 1;
    return page;
  }
  pages_.push_back({Tensor::empty({page_floats_}), 1});
  return static_cast<Page>(pages_.size() - 1);
}

void KvCache::drop(Page page) {
  Held& held = pages_[index(page)];
  check(held.users > 0, "a page is dropped once by each user");
  if (--held.users > 0) return;
  --used_;
  free_.push_back(page);
}

int64_t KvCache::references() const {
  int64_t sum = 0;
  for (const Held& held : pages_) sum += held.users;
  return sum;
}

void KvCache::point(Slot& s) {
  s.pointers.clear();
  for (const Page page : s.pages) s.pointers.push_back(page < 0 ? nullptr : pages_[index(page)].data.f32());
}

void KvCache::write_rows(ThreadPool& pool, const std::vector<const float*>& pages, int64_t layer, int64_t row,
                         const Tensor& k, const Tensor& v, int64_t start, int64_t count) const {
  const int64_t k_head = key_tile_floats(dim_), v_head = value_tile_floats(dim_), width = kv_heads_ * dim_;
  constexpr int64_t kGrain = 16;  // rows worth a task
  pool.for_ranges(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = row + i;
      float* base = const_cast<float*>(pages[static_cast<size_t>(at / kPageRows)]) + layer * layer_floats_;
      for (int64_t h = 0; h < kv_heads_; ++h) {
        const int64_t from = (start + i) * width + h * dim_;
        kernels::store_key(k.f32() + from, dim_, at % kPageRows, base + h * k_head);
        kernels::store_value(v.f32() + from, dim_, at % kPageRows, base + kv_heads_ * k_head + h * v_head);
      }
    }
  });
}

void KvCache::write(ThreadPool& pool, size_t slot, int64_t layer, int64_t row, const Tensor& k,
                    const Tensor& v, int64_t start, int64_t count) {
  const Slot& s = slots_.at(slot);
  check(row + count <= s.rows, "the cache and the batch disagree about the past");
  write_rows(pool, s.pointers, layer, row, k, v, start, count);
}

ops::CachedKeys KvCache::offsets(int64_t layer) const {
  ops::CachedKeys keys;
  keys.k_head = key_tile_floats(dim_), keys.v_head = value_tile_floats(dim_);
  keys.k_offset = layer * layer_floats_;
  keys.v_offset = keys.k_offset + kv_heads_ * keys.k_head;
  return keys;
}

ops::CachedKeys KvCache::keys(int64_t layer, const std::vector<size_t>& slots) const {
  ops::CachedKeys keys = offsets(layer);
  for (const size_t slot : slots) keys.pages.push_back(slots_.at(slot).pointers.data());
  return keys;
}

bool KvCache::has_cross(size_t slot, int64_t layer) const {
  const Slot& s = slots_.at(slot);
  return s.cross && layer < s.cross->layers;
}

void KvCache::write_cross(ThreadPool& pool, size_t slot, int64_t layer, const Tensor& k, const Tensor& v) {
  Slot& s = slots_.at(slot);
  if (!s.cross) {
    s.cross = std::make_shared<Cross>();
    s.cross->rows = k.dim(0);
    for (int64_t i = 0; i < pages_for(k.dim(0)); ++i) {
      s.cross->data.push_back(Tensor::empty({page_floats_}));
      s.cross->pointers.push_back(s.cross->data.back().f32());
    }
  }
  check(layer == s.cross->layers && s.cross->rows == k.dim(0),
        "the encoder's side is written once, layer by layer");
  write_rows(pool, s.cross->pointers, layer, 0, k, v, 0, k.dim(0));
  ++s.cross->layers;
}

ops::CachedKeys KvCache::cross_keys(int64_t layer, const std::vector<size_t>& slots) const {
  ops::CachedKeys keys = offsets(layer);
  for (const size_t slot : slots) keys.pages.push_back(slots_.at(slot).cross->pointers.data());
  return keys;
}

}  // namespace makar
