#include "text/train/word_counter.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>

#include "base/file.h"

namespace makar {
namespace {

constexpr size_t kBufferBytes = 1 << 16;
constexpr size_t kMinSpillWords = 1024;         // smaller tables are not written to disk
constexpr uint64_t kMaxTrackedCount = 1 << 16;  // larger counts share an entry of size_by_count
constexpr size_t kWordOverhead = 96;            // memory per word in training, besides its bytes

Error spill_error(const std::string& folder, const char* what) {
  return error_of(Error::Kind::kIo, folder, "{} failed: {}; set TMPDIR to a folder with free space", what,
                  std::strerror(errno));
}

// Calls visit(word, count) for every distinct word of the runs, in byte order.
Status merge_runs(std::vector<SpilledWords*>& runs,
                  const std::function<void(const std::string&, uint64_t)>& visit) {
  struct Head {
    std::string word;
    uint64_t count = 0;
    SpilledWords* run = nullptr;
  };
  std::vector<Head> heap;
  const auto later = [](const Head& a, const Head& b) { return a.word > b.word; };
  for (SpilledWords* run : runs) {
    run->rewind();
    Head head;
    head.run = run;
    MAKAR_TRY(const bool more, run->next(head.word, head.count));
    if (more) heap.push_back(std::move(head));
  }
  std::make_heap(heap.begin(), heap.end(), later);
  std::string word;
  uint64_t count = 0;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Head& head = heap.back();
    if (count != 0 && head.word != word) {
      visit(word, count);
      count = 0;
    }
    if (count == 0) word = head.word;
    count += head.count;
    MAKAR_TRY(const bool more, head.run->next(head.word, head.count));
    if (more)
      std::push_heap(heap.begin(), heap.end(), later);
    else
      heap.pop_back();
  }
  if (count != 0) visit(word, count);
  return Done{};
}

}  // namespace

Result<std::unique_ptr<SpilledWords>> SpilledWords::write(const WordTable& table, const std::string& folder) {
  const auto opened = open_unnamed_file(folder);
  if (!opened.ok())
    return error_of(Error::Kind::kIo, folder, "{}; set TMPDIR to a folder with free space",
                    opened.error().message);
  const int descriptor = *opened;
  std::FILE* file = fdopen(descriptor, "w+b");
  if (!file) {
    close(descriptor);
    return spill_error(folder, "opening a temporary file");
  }
  std::unique_ptr<SpilledWords> run(new SpilledWords(file));
  std::setvbuf(file, nullptr, _IOFBF, kBufferBytes);
  for (const uint32_t i : table.sorted_indices()) {
    const WordTable::Entry& e = table.entries()[i];
    std::fwrite(&e.count, sizeof e.count, 1, file);
    std::fwrite(&e.length, sizeof e.length, 1, file);
    std::fwrite(table.word(e).data(), 1, e.length, file);
  }
  if (std::fflush(file) != 0 || std::ferror(file)) return spill_error(folder, "writing a temporary file");
  return run;
}

SpilledWords::~SpilledWords() { std::fclose(file_); }

void SpilledWords::rewind() { std::rewind(file_); }

Result<bool> SpilledWords::next(std::string& word, uint64_t& count) {
  uint32_t length = 0;
  if (std::fread(&count, sizeof count, 1, file_) != 1) {
    if (std::feof(file_)) return false;
    return spill_error("temporary file", "reading");
  }
  if (std::fread(&length, sizeof length, 1, file_) != 1) return spill_error("temporary file", "reading");
  word.resize(length);
  if (length && std::fread(word.data(), 1, length, file_) != length)
    return spill_error("temporary file", "reading");
  return true;
}

Status WordCounter::add(std::string_view word, uint64_t count) {
  table_.add(word, count);
  if (table_.bytes() <= max_table_bytes_ || table_.size() < kMinSpillWords) return Done{};
  MAKAR_TRY(auto run, SpilledWords::write(table_, folder_));
  runs_.push_back(std::move(run));
  table_.clear();
  return Done{};
}

Result<WordCounts> WordCounter::finish(std::vector<WordCounter>& counters, size_t max_bytes,
                                       size_t bytes_per_byte) {
  WordCounts out;
  std::vector<SpilledWords*> runs;
  for (WordCounter& c : counters)
    for (const auto& run : c.runs_) runs.push_back(run.get());
  out.runs = runs.size();
  if (runs.empty()) {
    // The common case: everything is in memory.
    for (size_t i = 1; i < counters.size(); ++i) {
      for (const auto& e : counters[i].table_.entries())
        counters[0].table_.add(counters[i].table_.word(e), e.count);
      counters[i].table_.clear();
    }
  }
  for (WordCounter& c : counters) {
    if (c.table_.size() == 0) continue;
    if (runs.empty()) continue;
    MAKAR_TRY(auto run, SpilledWords::write(c.table_, c.folder_));
    c.runs_.push_back(std::move(run));
    runs.push_back(c.runs_.back().get());
    c.table_.clear();
  }
  const auto each_word = [&](const std::function<void(std::string_view, uint64_t)>& visit) -> Status {
    if (!runs.empty())
      return merge_runs(runs, [&](const std::string& word, uint64_t count) { visit(word, count); });
    for (const uint32_t i : counters[0].table_.sorted_indices()) {
      const auto& e = counters[0].table_.entries()[i];
      visit(counters[0].table_.word(e), e.count);
    }
    return Done{};
  };
  // First the memory of the words by count, then the words that fit, most frequent first.
  std::map<uint64_t, size_t, std::greater<>> size_by_count;
  MAKAR_RETURN_IF_ERROR(each_word([&](std::string_view word, uint64_t count) {
    size_by_count[std::min(count, kMaxTrackedCount)] += kWordOverhead + bytes_per_byte * word.size();
    out.total += count;
  }));
  uint64_t min_count = 0;
  size_t used_bytes = 0;
  for (const auto& [count, bytes] : size_by_count) {
    if (used_bytes + bytes > max_bytes) {
      min_count = count + 1;
      break;
    }
    used_bytes += bytes;
  }
  MAKAR_RETURN_IF_ERROR(each_word([&](std::string_view word, uint64_t count) {
    if (count >= min_count)
      out.words.push_back({std::string(word), count});
    else
      ++out.dropped_words, out.dropped_total += count;
  }));
  for (WordCounter& c : counters) c.table_.clear(), c.runs_.clear();
  return out;
}

}  // namespace makar
