#include "nn/cache.h"

#include <algorithm>

namespace makar {

Result<DType> parse_cache_type(const std::string& text, const std::string& place) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kQ8_0})
    if (text == name(type)) return type;
  return error_at(place, "expected f32, f16 or q8_0, got '{}'", text);
}

namespace {

// Whether the attention of a block has kernels for keys and values in bf16 (ops::attends_bf16).
bool caches_bf16(const BlockSpec& block) {
  const auto supported = [](const AttentionSpec& a) {
    return a.bias == BiasKind::kNone && a.soft_cap == 0.0f && a.scale > 0.0f && !a.sink_logits &&
           !a.relative && a.head_dim % 8 == 0 && a.head_dim <= kernels::kMaxBf16HeadDim;
  };
  return supported(block.attention) && (!block.cross || supported(*block.cross));
}

// States of recurrent layers are not rounded: a rounded state would depend on where a prompt is split.
CacheTypes types_for(const BlockSpec& block, CacheTypes types) {
  const bool bf16 = types.k == DType::kBF16 || types.v == DType::kBF16;
  check(types.k == types.v || !bf16, "keys and values are both bf16 or neither");
  return block.recurrent || block.alignment || (bf16 && !caches_bf16(block)) ? CacheTypes{} : types;
}

}  // namespace

KvCache::KvCache(const StackSpec& stack, size_t slots, int64_t max_pages, CacheTypes types, Memory& memory)
    : memory_(memory), max_pages_(max_pages) {
  for (const BlockSpec& block : stack.blocks) {
    states_.push_back(block.mixer ? page_bytes_ : -1);
    if (block.mixer) {
      layers_.emplace_back();
      page_bytes_ += (block.mixer->state_size() * 4 + 63) / 64 * 64;  // floats, aligned to 64 bytes
      has_states_ = true;
      continue;
    }
    const int64_t heads = block.attention.kv_heads, dim = block.attention.head_dim;
    if (const auto& cross = block.cross)
      check(cross->kv_heads == heads && cross->head_dim == dim,
            "self- and cross-attention share pages, so their heads must have the same number and size");
    const CacheTypes layer_types = types_for(block, types);
    const int64_t k_head = kernels::key_tile_bytes(layer_types.k, dim),
                  v_head = kernels::value_tile_bytes(layer_types.v, dim);
    const int64_t values = page_bytes_ + heads * k_head;
    layers_.push_back({page_bytes_, k_head, values, v_head, layer_types.k, layer_types.v});
    page_bytes_ = values + heads * v_head;
  }
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
  check(s.used, "release: the slot is not in use");
  for (const PagedTokens* tokens : {&s.self, &s.cross})
    for (const Page page : tokens->pages)
      if (page >= 0) release_page(page);
  s = Slot{};
  free_slots_.push_back(slot);
}

// Shares the first `rows` tokens: adds one reference per page.
KvCache::PagedTokens KvCache::share(const PagedTokens& from, int64_t rows) {
  PagedTokens to;
  to.rows = rows;
  to.pages.assign(from.pages.begin(), from.pages.begin() + pages_for(rows));
  for (const Page page : to.pages)
    if (page >= 0) retain(page);
  return to;
}

size_t KvCache::fork(size_t slot, int64_t rows) {
  const size_t new_slot = add();
  const Slot& from = slots_.at(slot);
  check(from.used && rows <= from.self.rows, "fork: the fork is longer than its source");
  check(!has_states_ || rows == from.self.rows || rows % kPageRows == 0,
        "fork: with recurrent states, it must be as long as its source or end at a page boundary");
  slots_.at(new_slot).self = share(from.self, rows);
  share_cross(slot, new_slot);
  return new_slot;
}

size_t KvCache::adopt(const std::vector<Page>& pages) {
  const size_t new_slot = add();
  const PagedTokens prefix{static_cast<int64_t>(pages.size()) * kPageRows, pages};
  slots_.at(new_slot).self = share(prefix, prefix.rows);
  return new_slot;
}

bool KvCache::grow(size_t slot, int64_t rows) {
  Slot& s = slots_.at(slot);
  check(s.used, "grow: the slot is not in use");
  return extend(s.self, rows);
}

bool KvCache::extend(PagedTokens& tokens, int64_t rows) {
  if (rows <= tokens.rows) return true;
  const int64_t page_count = static_cast<int64_t>(tokens.pages.size()), needed = pages_for(rows);
  // The last page is written next, so it must not be shared.
  const bool copies_last = tokens.rows % kPageRows != 0 && users(tokens.pages.back()) > 1;
  if (max_pages_ > 0 && needed - page_count + (copies_last ? 1 : 0) > pages_free()) return false;
  if (copies_last) {
    const Page before = tokens.pages.back(), copy = allocate_page();
    memory_.copy(pages_[index(copy)].data.address(), pages_[index(before)].data.address(),
                 static_cast<size_t>(page_bytes_));
    tokens.pages.back() = copy;
    release_page(before);
  }
  while (static_cast<int64_t>(tokens.pages.size()) < needed) tokens.pages.push_back(allocate_page());
  tokens.rows = rows;
  return true;
}

int64_t KvCache::truncate(size_t slot, int64_t rows) {
  PagedTokens& tokens = slots_.at(slot).self;
  if (rows >= tokens.rows) return tokens.rows;
  if (has_states_) rows = rows / kPageRows * kPageRows;
  while (static_cast<int64_t>(tokens.pages.size()) > pages_for(rows)) {
    if (tokens.pages.back() >= 0) release_page(tokens.pages.back());
    tokens.pages.pop_back();
  }
  tokens.rows = rows;
  return rows;
}

void KvCache::evict(size_t slot, int64_t keep, int64_t row) {
  PagedTokens& tokens = slots_.at(slot).self;
  for (int64_t i = std::min(row / kPageRows, static_cast<int64_t>(tokens.pages.size())) - 1;
       i >= pages_for(keep); --i) {
    Page& page = tokens.pages[static_cast<size_t>(i)];
    if (page < 0) break;
    release_page(page);
    page = -1;
  }
}

KvCache::Page KvCache::allocate_page() {
  ++used_;
  if (!free_.empty()) {
    const Page page = free_.back();
    free_.pop_back();
    pages_[index(page)].users = 1;
    return page;
  }
  pages_.push_back({Tensor::empty({page_bytes_}, DType::kU8, memory_), 1});
  return static_cast<Page>(pages_.size() - 1);
}

void KvCache::release_page(Page page) {
  StoredPage& stored = pages_[index(page)];
  check(stored.users > 0, "release_page: the page has no users");
  if (--stored.users > 0) return;
  --used_;
  free_.push_back(page);
}

int64_t KvCache::references() const {
  int64_t sum = 0;
  for (const StoredPage& stored : pages_) sum += stored.users;
  return sum;
}

std::vector<int64_t> KvCache::addresses(const PagedTokens& tokens) const {
  std::vector<int64_t> out;
  for (const Page page : tokens.pages)
    out.push_back(page < 0 ? 0 : reinterpret_cast<int64_t>(pages_[index(page)].data.address()));
  return out;
}

bool KvCache::grow_cross(size_t slot, int64_t rows) {
  Slot& s = slots_.at(slot);
  check(s.cross_layers == 0, "grow_cross: the cross-attention keys are already written");
  return extend(s.cross, rows);
}

void KvCache::share_cross(size_t from, size_t to) {
  const Slot& source = slots_.at(from);
  slots_.at(to).cross = share(source.cross, source.cross.rows);
  slots_.at(to).cross_layers = source.cross_layers;
}

void KvCache::begin_cross(size_t slot, int64_t layer, int64_t rows) {
  Slot& s = slots_.at(slot);
  if (s.cross_layers == 0) {
    const bool reserved = grow_cross(slot, rows);
    check(reserved, "the caller must reserve cache pages before reading a source");
  }
  check(layer == s.cross_layers && s.cross.rows == rows,
        "the encoder's keys are written once, layer by layer");
  ++s.cross_layers;
}

}  // namespace makar
