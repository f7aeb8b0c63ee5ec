// Keys and values of what was already computed, in pages of kernels::kKeyTile tokens that hold all layers.
// Sequences share pages (a fork, a common prefix) until one of them writes. In f32 a cached forward has the
// bits of an uncached one; f16 and q8_0 take a half and about a quarter of the room and round each number
// once, when it is written.
#pragma once
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "nn/spec.h"
#include "ops/attention.h"

namespace makar {

struct CacheTypes {
  DType k = DType::kF32, v = DType::kF32;
};
// "f32", "f16" or "q8_0".
Result<DType> parse_cache_type(const std::string& name, const std::string& place);

class KvCache {
 public:
  static constexpr int64_t kPageRows = kernels::kKeyTile;
  using Page = int32_t;

  // For the layers of `stack`, with `slots` empty sequences; at most `max_pages` pages, 0 for no bound.
  explicit KvCache(const StackSpec& stack, size_t slots = 0, int64_t max_pages = 0, CacheTypes types = {});

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
  // Gives back the pages that lie wholly between the first `keep` tokens and token `row`; they may not be
  // looked at again.
  void forget(size_t slot, int64_t keep, int64_t row);
  int64_t length(size_t slot) const { return slots_.at(slot).own.rows; }
  const std::vector<Page>& pages(size_t slot) const { return slots_.at(slot).own.pages; }
  const std::vector<Page>& cross_pages(size_t slot) const { return slots_.at(slot).cross.pages; }

  // --- pages ---
  void keep(Page page) { ++pages_[index(page)].users; }
  void drop(Page page);
  int64_t users(Page page) const { return pages_[index(page)].users; }
  int64_t references() const;  // of all users to all pages
  int64_t pages_used() const { return used_; }
  int64_t max_pages() const { return max_pages_; }
  int64_t pages_free() const { return max_pages_ - used_; }  // where there is a bound
  int64_t page_bytes() const { return page_bytes_; }
  static int64_t pages_for(int64_t rows) { return (rows + kPageRows - 1) / kPageRows; }

  // --- what attention does ---
  // Rows [start, start + count) of k and v [N, kv width] become the tokens from `row` on of a sequence.
  struct NewRows {
    size_t slot;
    int64_t row, start, count;
  };
  void write(ThreadPool& pool, int64_t layer, const std::vector<NewRows>& parts, const Tensor& k,
             const Tensor& v);
  ops::CachedKeys keys(int64_t layer, const std::vector<size_t>& slots) const;

  // Cross-attention: the encoder's keys and values, written once and shared by forks. Room for them is made
  // first, as with grow(); a sequence may also read what another one of the same source holds.
  bool grow_cross(size_t slot, int64_t rows);
  void share_cross(size_t from, size_t to);
  bool has_cross(size_t slot, int64_t layer) const { return layer < slots_.at(slot).cross_layers; }
  void write_cross(ThreadPool& pool, size_t slot, int64_t layer, const Tensor& k, const Tensor& v);
  int64_t cross_length(size_t slot) const { return slots_.at(slot).cross.rows; }
  ops::CachedKeys cross_keys(int64_t layer, const std::vector<size_t>& slots) const;

 private:
  struct Held {
    Tensor data;
    int64_t users = 0;
  };
  struct Run {  // tokens in a row of pages
    int64_t rows = 0;
    std::vector<Page> pages;
    std::vector<const std::byte*> pointers;  // the same pages, for the kernels
  };
  struct Slot {
    bool used = false;
    Run own, cross;
    int64_t cross_layers = 0;  // written so far
  };

  static size_t index(Page page) { return static_cast<size_t>(page); }
  Page take();
  bool extend(Run& run, int64_t rows);
  void point(Run& run) const;
  Run shared(const Run& from, int64_t rows);
  void write_row(const Run& run, int64_t layer, int64_t row, const float* k, const float* v) const;
  ops::CachedKeys offsets(int64_t layer) const;

  int64_t kv_heads_, dim_;
  CacheTypes types_;
  int64_t k_head_, v_head_, layer_bytes_, page_bytes_;  // bytes of a head's tile, of a layer, of all
  int64_t max_pages_;
  int64_t used_ = 0;
  std::vector<Held> pages_;
  std::vector<Page> free_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_slots_;
};

}  // namespace makar
