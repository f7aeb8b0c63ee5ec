#include "lexical/cooccurrence.h"

#include <algorithm>
#include <queue>

#include "text/hash.h"

namespace makar {
namespace {

constexpr uint64_t kUnit = 232'792'560;  // the least common multiple of 1 to 20: kUnit / distance is exact

struct Entry {
  uint64_t key, count;  // key: word and context, 32 bits each; count: in units of 1/kUnit
};

// Sums by key, in a table of fixed size.
class PairTable {
 public:
  explicit PairTable(size_t bytes) {
    size_t slots = 1024;
    while (slots * 2 * sizeof(Entry) * 2 <= bytes) slots *= 2;  // sorting needs the entries a second time
    entries_.assign(slots, Entry{kEmpty, 0});
  }
  void add(uint64_t key, uint64_t count) {
    const size_t mask = entries_.size() - 1;
    size_t at = hash_u64(key) & mask;
    while (entries_[at].key != key && entries_[at].key != kEmpty) at = (at + 1) & mask;
    if (entries_[at].key == kEmpty) entries_[at].key = key, ++used_;
    entries_[at].count += count;
  }
  bool full() const { return used_ * 10 >= entries_.size() * 7; }
  std::vector<Entry> take_sorted() {
    std::vector<Entry> out;
    out.reserve(used_);
    for (Entry& e : entries_)
      if (e.key != kEmpty) out.push_back(std::exchange(e, Entry{kEmpty, 0}));
    std::sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
    used_ = 0;
    return out;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  std::vector<Entry> entries_;
  size_t used_ = 0;
};

Status write_run(PairTable& table, std::vector<MappedRecords>& runs) {
  MAKAR_TRY(MappedRecords run, MappedRecords::create());
  const auto sorted = table.take_sorted();
  MAKAR_RETURN_IF_ERROR(run.write(sorted.data(), sorted.size() * sizeof(Entry)));
  MAKAR_RETURN_IF_ERROR(run.map());
  runs.push_back(std::move(run));
  return Done{};
}

Result<MappedRecords> merge(const std::vector<MappedRecords>& runs) {
  MAKAR_TRY(MappedRecords out, MappedRecords::create());
  using Head = std::pair<uint64_t, size_t>;  // key, run
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  std::vector<size_t> at(runs.size(), 0);
  const auto push = [&](size_t run) {
    const auto entries = runs[run].as<const Entry>();
    if (at[run] < entries.size()) heads.push({entries[at[run]].key, run});
  };
  for (size_t i = 0; i < runs.size(); ++i) push(i);
  while (!heads.empty()) {
    const uint64_t key = heads.top().first;
    uint64_t count = 0;
    while (!heads.empty() && heads.top().first == key) {
      const size_t run = heads.top().second;
      heads.pop();
      count += runs[run].as<const Entry>()[at[run]++].count;
      push(run);
    }
    const Cooccurrence c{static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key),
                         static_cast<float>(static_cast<double>(count) / static_cast<double>(kUnit))};
    MAKAR_RETURN_IF_ERROR(out.write(&c, sizeof c));
  }
  MAKAR_RETURN_IF_ERROR(out.map());
  return out;
}

}  // namespace

Result<MappedRecords> count_cooccurrences(const WordStream& text, const CooccurrenceOptions& o) {
  if (o.window < 1 || o.window > 20) return error_at("`window`", "must be 1 to 20, got {}", o.window);
  PairTable table(o.max_bytes);
  std::vector<MappedRecords> runs;
  const auto ids = text.ids.as<const uint32_t>().first(text.size);
  for (size_t at = 0; at < ids.size(); ++at) {
    if (ids[at] == WordStream::kLineEnd) continue;
    for (uint64_t d = 1;
         d <= static_cast<uint64_t>(o.window) && d <= at && ids[at - d] != WordStream::kLineEnd; ++d) {
      const uint64_t count = o.by_distance ? kUnit / d : kUnit;
      table.add(uint64_t{ids[at]} << 32 | ids[at - d], count);
      table.add(uint64_t{ids[at - d]} << 32 | ids[at], count);
      if (table.full()) MAKAR_RETURN_IF_ERROR(write_run(table, runs));
    }
    if (at % 4096 == 0) o.progress(at, ids.size());
  }
  MAKAR_RETURN_IF_ERROR(write_run(table, runs));
  return merge(runs);
}

}  // namespace makar
