#include "text/bpe.h"

#include <algorithm>
#include <functional>

#include "base/rng.h"
#include "text/unicode.h"

namespace makar {
namespace {

// Up to this number of symbols, scanning for the best pair is faster than a heap (measured on English and
// code).
constexpr size_t kMaxShortSymbols = 32;

}  // namespace

Merge Bpe::merge_of(uint32_t left, uint32_t right, const BannedIds* banned) const {
  const Merge merge = merges_.find(left, right);
  if (banned && merge.rank != UINT32_MAX && merge.id < banned->size() && (*banned)[merge.id]) return {};
  return merge;
}

void Bpe::append_symbols(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out) const {
  uint32_t at = 0;  // offsets count only known symbols, as in the Hugging Face library
  const auto put = [&](uint32_t id, uint32_t size) {
    out.push_back({id, at, at + size});
    at += size;
  };
  if (raw_ && has_all_bytes_) {
    for (const char c : word) put(byte_ids_[static_cast<unsigned char>(c)], 1);
    return;
  }
  uint32_t unknown_size = 0;
  std::string buffer;
  for (size_t i = 0; i < word.size();) {
    const uint32_t size =
        raw_ ? 1 : std::min<uint32_t>(utf8_size(word[i]), static_cast<uint32_t>(word.size() - i));
    std::string_view symbol = word.substr(i, size);
    if ((i > 0 && !prefix_.empty()) || (i + size == word.size() && !suffix_.empty())) {
      buffer.clear();
      if (i > 0) buffer += prefix_;
      buffer += symbol;
      if (i + size == word.size()) buffer += suffix_;
      symbol = buffer;
    }
    i += size;
    uint32_t id = raw_ ? byte_ids_[static_cast<unsigned char>(symbol[0])] : vocabulary_.find(symbol);
    if (banned && id < banned->size() && (*banned)[id]) id = kNoId;
    if (id != kNoId) {
      if (unknown_size) put(unknown_, unknown_size), unknown_size = 0;
      put(id, size);
      continue;
    }
    if (byte_fallback_ && std::all_of(symbol.begin(), symbol.end(), [&](char c) {
          return byte_ids_[static_cast<unsigned char>(c)] != kNoId;
        })) {
      for (const char c : symbol) put(byte_ids_[static_cast<unsigned char>(c)], 1);
      continue;
    }
    if (unknown_ == kNoId) continue;
    if (unknown_size && !fuse_unknown_) put(unknown_, unknown_size), unknown_size = 0;
    unknown_size += size;
  }
  if (unknown_size) put(unknown_, unknown_size);
}

void Bpe::merge_short(const BannedIds* banned, std::vector<ModelToken>& out, size_t first) const {
  Merge pairs[kMaxShortSymbols];
  size_t count = out.size() - first;
  ModelToken* tokens = out.data() + first;
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merge_of(tokens[i].id, tokens[i + 1].id, banned);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == UINT32_MAX) break;
    tokens[best].id = pairs[best].id;
    tokens[best].end = tokens[best + 1].end;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      tokens[i] = tokens[i + 1];
      pairs[i] = pairs[i + 1];
    }
    --count;
    if (best > 0) pairs[best - 1] = merge_of(tokens[best - 1].id, tokens[best].id, banned);
    if (best + 1 < count) pairs[best] = merge_of(tokens[best].id, tokens[best + 1].id, banned);
  }
  out.resize(first + count);
}

Status Bpe::merge_long(const BannedIds* banned, std::vector<ModelToken>& out, size_t first,
                       WorkBudget* work) const {
  const auto count = static_cast<uint32_t>(out.size() - first);
  ModelToken* tokens = out.data() + first;
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> previous(count), next(count);
  std::vector<Merge> pairs(count);  // of each live symbol with its right neighbour
  std::vector<uint64_t> heap;       // rank << 32 | position, smallest first
  heap.reserve(count);
  const auto update_pair = [&](uint32_t at) {
    pairs[at] = next[at] == kNone ? Merge{} : merge_of(tokens[at].id, tokens[next[at]].id, banned);
    return pairs[at].rank != UINT32_MAX;
  };
  for (uint32_t i = 0; i < count; ++i) {
    previous[i] = i ? i - 1 : kNone;
    next[i] = i + 1 < count ? i + 1 : kNone;
  }
  const auto key = [&](uint32_t at) { return uint64_t{pairs[at].rank} << 32 | at; };
  for (uint32_t i = 0; i < count; ++i)
    if (update_pair(i)) heap.push_back(key(i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](uint32_t at) {
    if (!update_pair(at)) return;
    heap.push_back(key(at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  std::vector<bool> dead(count);
  while (!heap.empty()) {
    if (work && !work->spend(2)) return work->error("text");
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (dead[at] || pairs[at].rank != static_cast<uint32_t>(top >> 32)) continue;
    const uint32_t right = next[at];
    tokens[at].id = pairs[at].id;
    tokens[at].end = tokens[right].end;
    dead[right] = true;
    next[at] = next[right];
    if (next[at] != kNone) previous[next[at]] = at;
    push(at);
    if (previous[at] != kNone) push(previous[at]);
  }
  size_t size = first;
  for (uint32_t i = 0; i < count; ++i)
    if (!dead[i]) out[size++] = tokens[i];
  out.resize(size);
  return Done{};
}

Status Bpe::tokenize(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out,
                     WorkBudget* work) const {
  if (word.empty()) return Done{};
  if (ignore_merges_) {
    const uint32_t id = whole_word(word);
    if (id != kNoId && !(banned && id < banned->size() && (*banned)[id])) {
      out.push_back({id, 0, static_cast<uint32_t>(word.size())});
      return Done{};
    }
  }
  const size_t first = out.size();
  append_symbols(word, banned, out);
  const size_t count = out.size() - first;
  if (count < 2) return Done{};
  if (count > kMaxShortSymbols) return merge_long(banned, out, first, work);
  merge_short(banned, out, first);
  return Done{};
}

// Skips each merge with probability `dropout` (Provilkov et al., 2020).
Status Bpe::tokenize_dropout(std::string_view word, uint64_t seed, std::vector<ModelToken>& out,
                             WorkBudget* work) const {
  const size_t first = out.size();
  append_symbols(word, nullptr, out);
  const Rng rng(seed, Purpose::kDropout, hash_bytes(word));
  uint64_t draw = 0;
  std::vector<ModelToken> tokens(out.begin() + first, out.end());
  while (tokens.size() > 1) {
    if (work && !work->spend(1 + static_cast<int64_t>(tokens.size() / 4))) return work->error("text");
    size_t best = SIZE_MAX;
    Merge best_merge;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Merge merge = merges_.find(tokens[i].id, tokens[i + 1].id);
      if (merge.rank < best_merge.rank && rng.uniform(draw++) >= dropout_) best = i, best_merge = merge;
    }
    if (best == SIZE_MAX) break;
    tokens[best].id = best_merge.id;
    tokens[best].end = tokens[best + 1].end;
    tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  out.resize(first);
  out.insert(out.end(), tokens.begin(), tokens.end());
  return Done{};
}

std::vector<Bpe::Step> Bpe::explain(std::string_view word) const {
  std::vector<Step> steps(1);
  if (ignore_merges_ && whole_word(word) != kNoId) {
    steps[0].tokens.push_back({whole_word(word), 0, static_cast<uint32_t>(word.size())});
    return steps;
  }
  append_symbols(word, nullptr, steps[0].tokens);
  while (true) {
    Step step = steps.back();
    size_t best = 0;
    Merge best_merge;
    for (size_t i = 0; i + 1 < step.tokens.size(); ++i) {
      const Merge merge = merges_.find(step.tokens[i].id, step.tokens[i + 1].id);
      if (merge.rank < best_merge.rank) best = i, best_merge = merge;
    }
    if (best_merge.rank == UINT32_MAX) return steps;
    step.rank = best_merge.rank;
    step.tokens[best].id = best_merge.id;
    step.tokens[best].end = step.tokens[best + 1].end;
    step.tokens.erase(step.tokens.begin() + static_cast<ptrdiff_t>(best) + 1);
    steps.push_back(std::move(step));
  }
}

bool Bpe::splits_before(std::string_view mark) const {
  if (!prefix_.empty() || !suffix_.empty() || ignore_merges_ || dropout_ > 0 || raw_) return false;
  if (vocabulary_.find(mark) == kNoId) return false;
  for (const auto& [left, right] : order_) {
    const std::string_view a = *vocabulary_.token(left), b = *vocabulary_.token(right);
    if (b.starts_with(mark) && !a.ends_with(mark)) return false;
  }
  return true;
}

}  // namespace makar
