// Paged KV cache: a page holds kernels::kKeyTile tokens in all layers. Sequences share pages (forks,
// common prefixes) until one of them writes. With f32, a cached forward pass has the same bits as an uncached
// one; f16 and q8_0 take half and about a quarter of the memory and round each value once, when it is
// written. bf16 is the type of mixed precision: its keys and values are bf16 before they are written. Each
// page also has the state of recurrent layers after its last computed token (MixerSpec), so that states are
// shared, copied and freed with their pages.
#pragma once
#include <string>
#include <vector>

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

  // For the layers of `stack`, with `slots` empty sequences and at most `max_pages` pages (0: unlimited).
  // Pages are in the memory of the device that runs the stack.
  explicit KvCache(const StackSpec& stack, size_t slots = 0, int64_t max_pages = 0, CacheTypes types = {},
                   Memory& memory = host_memory());

  // --- sequences ---
  size_t add();
  void release(size_t slot);
  // Creates a sequence that shares the first `rows` tokens and the cross-attention cache of another.
  size_t fork(size_t slot, int64_t rows);
  // Creates a sequence that starts with existing pages, all of them full.
  size_t adopt(const std::vector<Page>& pages);
  // Extends the sequence to `rows` tokens in writable pages. If no pages are left, returns false and changes
  // nothing.
  bool grow(size_t slot, int64_t rows);
  // Drops everything after the first `rows` tokens; with recurrent layers, whose states exist only at the end
  // of pages, possibly more. Returns the length.
  int64_t truncate(size_t slot, int64_t rows);
  // Releases the pages that lie entirely between the first `keep` tokens and token `row`; they must not be
  // read again.
  void evict(size_t slot, int64_t keep, int64_t row);
  int64_t length(size_t slot) const { return slots_.at(slot).self.rows; }
  const std::vector<Page>& pages(size_t slot) const { return slots_.at(slot).self.pages; }
  const std::vector<Page>& cross_pages(size_t slot) const { return slots_.at(slot).cross.pages; }

  // --- pages, with reference counts: a page is free when its last user releases it ---
  void retain(Page page) { ++pages_[index(page)].users; }
  void release_page(Page page);
  int64_t users(Page page) const { return pages_[index(page)].users; }
  int64_t references() const;  // total page references
  int64_t pages_used() const { return used_; }
  int64_t max_pages() const { return max_pages_; }
  int64_t pages_free() const { return max_pages_ - used_; }  // only with a page limit
  int64_t page_bytes() const { return page_bytes_; }
  static int64_t pages_for(int64_t rows) { return (rows + kPageRows - 1) / kPageRows; }

  // --- attention ---
  // Offsets of a layer's keys and values in a page, for self- and cross-attention.
  const ops::CachedKeys& keys(int64_t layer) const { return layers_.at(static_cast<size_t>(layer)); }
  // The offset of a recurrent layer's state in a page.
  int64_t state_offset(int64_t layer) const { return states_.at(static_cast<size_t>(layer)); }
  bool has_states() const { return has_states_; }
  // Device addresses of a sequence's pages, for a page table; 0 for released pages.
  std::vector<int64_t> page_addresses(size_t slot) const { return addresses(slots_.at(slot).self); }

  // Cross-attention: the encoder's keys and values, written once per layer and shared by forks. grow_cross()
  // reserves their pages, like grow(); share_cross() reuses the pages of a sequence with the same source.
  bool grow_cross(size_t slot, int64_t rows);
  void share_cross(size_t from, size_t to);
  bool has_cross(size_t slot) const { return slots_.at(slot).cross_layers > 0; }
  // Call before writing `rows` keys of a layer; the first layer reserves pages if grow_cross() has not.
  void begin_cross(size_t slot, int64_t layer, int64_t rows);
  int64_t cross_length(size_t slot) const { return slots_.at(slot).cross.rows; }
  std::vector<int64_t> cross_page_addresses(size_t slot) const { return addresses(slots_.at(slot).cross); }

 private:
  struct StoredPage {
    Tensor data;
    int64_t users = 0;
  };
  struct PagedTokens {  // consecutive tokens and the pages that hold them
    int64_t rows = 0;
    std::vector<Page> pages;
  };
  struct Slot {
    bool used = false;
    PagedTokens self, cross;
    int64_t cross_layers = 0;  // layers written so far
  };

  static size_t index(Page page) { return static_cast<size_t>(page); }
  Page allocate_page();
  bool extend(PagedTokens& tokens, int64_t rows);
  std::vector<int64_t> addresses(const PagedTokens& tokens) const;
  PagedTokens share(const PagedTokens& from, int64_t rows);

  Memory& memory_;
  std::vector<ops::CachedKeys> layers_;
  std::vector<int64_t> states_;  // by layer; -1: none
  bool has_states_ = false;
  int64_t page_bytes_ = 0;
  int64_t max_pages_;
  int64_t used_ = 0;
  std::vector<StoredPage> pages_;
  std::vector<Page> free_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_slots_;
};

}  // namespace makar
