// Keys and values of what was already computed, in pages of kernels::kKeyTile tokens that hold all layers.
// Sequences share pages (a fork, a common prefix) until one of them writes. Values are f32, so a cached
// forward has the bits of an uncached one.
#pragma once
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "nn/spec.h"
#include "ops/attention.h"

namespace makar {

class KvCache {
 public:
  static constexpr int64_t kPageRows = kernels::kKeyTile;
  using Page = int32_t;

  // For the layers of `stack`, with `slots` empty sequences; at most `max_pages` pages, 0 for no bound.
  explicit KvCache(const StackSpec& stack, size_t slots = 0, int64_t max_pages = 0);

  // --- sequences ---
  size_t add();
  void release(size_t slot);
  // A new sequence that shares the first `rows` tokens of another, and what its cross-attention reads.
  size_t fork(size_t slot, int64_t rows);
  // A new sequence that begins with whole pages kept by someone else.
  size_t adopt(const std::vector<Page>& pages);
  // Makes the sequence `rows` tokens long: room in pages of its own from its present end on. False, and
  // nothing is changed, when there are no pages left.
  bool grow(size_t slot, int64_t rows);
  // Forgets everything after the first `rows` tokens.
  void truncate(size_t slot, int64_t rows);
  // Gives back the pages that lie wholly before token `row`; they may not be looked at again.
  void forget_before(size_t slot, int64_t row);
  int64_t length(size_t slot) const { return slots_.at(slot).rows; }
  const std::vector<Page>& pages(size_t slot) const { return slots_.at(slot).pages; }

  // --- pages ---
  void keep(Page page) { ++pages_[index(page)].users; }
  void drop(Page page);
  int64_t users(Page page) const { return pages_[index(page)].users; }
  int64_t references() const;  // of all users to all pages
  int64_t pages_used() const { return used_; }
  int64_t max_pages() const { return max_pages_; }
  int64_t pages_free() const { return max_pages_ - used_; }  // where there is a bound
  int64_t page_bytes() const { return page_floats_ * static_cast<int64_t>(sizeof(float)); }
  static int64_t pages_for(int64_t rows) { return (rows + kPageRows - 1) / kPageRows; }

  // --- what attention does ---
  // Rows [start, start + count) of k and v [N, kv width] become the tokens from `row` on of a sequence.
  void write(ThreadPool& pool, size_t slot, int64_t layer, int64_t row, const Tensor& k, const Tensor& v,
             int64_t start, int64_t count);
  ops::CachedKeys keys(int64_t layer, const std::vector<size_t>& slots) const;

  // Cross-attention: the encoder's keys and values, written once and shared by forks.
  bool has_cross(size_t slot, int64_t layer) const;
  void write_cross(ThreadPool& pool, size_t slot, int64_t layer, const Tensor& k, const Tensor& v);
  int64_t cross_length(size_t slot) const { return slots_.at(slot).cross->rows; }
  ops::CachedKeys cross_keys(int64_t layer, const std::vector<size_t>& slots) const;

 private:
  struct Held {
    Tensor data;
    int64_t users = 0;
  };
  // Tensors of the encoder's side live as long as a sequence refers to them.
  struct Cross {
    int64_t rows = 0, layers = 0;
    std::vector<Tensor> data;
    std::vector<const float*> pointers;
  };
  struct Slot {
    bool used = false;
    int64_t rows = 0;
    std::vector<Page> pages;
    std::vector<const float*> pointers;  // the same pages, for the kernels
    std::shared_ptr<Cross> cross;
  };

  static size_t index(Page page) { return static_cast<size_t>(page); }
  Page take();
  void point(Slot& slot);
  void write_rows(ThreadPool& pool, const std::vector<const float*>& pages, int64_t layer, int64_t row,
                  const Tensor& k, const Tensor& v, int64_t start, int64_t count) const;
  ops::CachedKeys offsets(int64_t layer) const;

  int64_t kv_heads_, dim_, layer_floats_, page_floats_, max_pages_;
  int64_t used_ = 0;
  std::vector<Held> pages_;
  std::vector<Page> free_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_slots_;
};

}  // namespace makar
