// Counts the words of a corpus on all threads, within the memory limit.
#include <cstdlib>
#include <mutex>

#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/train/train.h"

namespace makar {
namespace {

constexpr size_t kMinMemoryBytes = size_t{64} << 20;
constexpr size_t kBlockMemoryBytes = size_t{4} << 20;  // assumed per block while its words are counted

class ParallelWordCounter {
 public:
  ParallelWordCounter(const Normalizer* normalizer, const PreTokenizer* pre_tokenizer, size_t threads,
                      size_t table_bytes, const std::string& folder)
      : normalizer_(normalizer), pre_tokenizer_(pre_tokenizer) {
    for (size_t i = 0; i < threads; ++i) counters.emplace_back(table_bytes, folder);
    for (size_t i = 0; i < threads; ++i) free_counters_.push_back(&counters[i]);
  }

  Status count(const SequenceBlock& block) {
    WordCounter* counter;
    {
      const std::lock_guard lock(mutex_);
      counter = free_counters_.back();
      free_counters_.pop_back();
    }
    const Status status = count(block, *counter);
    const std::lock_guard lock(mutex_);
    free_counters_.push_back(counter);
    return status;
  }

  std::vector<WordCounter> counters;

 private:
  Status count(const SequenceBlock& block, WordCounter& counter) const {
    size_t begin = 0;
    for (const size_t end : block.ends) {
      Words words;
      words.text = AlignedText(std::string_view(block.bytes).substr(begin, end - begin), 0);
      begin = end;
      if (normalizer_ && !normalizer_->known_unchanged(words.text.text()))
        MAKAR_RETURN_IF_ERROR(normalizer_->apply(words.text));
      if (words.text.text().empty()) continue;
      words.ranges = {{0, static_cast<uint32_t>(words.text.text().size())}};
      if (pre_tokenizer_) MAKAR_RETURN_IF_ERROR(pre_tokenizer_->apply(words));
      const std::string_view text = words.text.text();
      for (const Span r : words.ranges)
        if (r.end > r.begin) MAKAR_RETURN_IF_ERROR(counter.add(text.substr(r.begin, r.end - r.begin)));
    }
    return Done{};
  }

  const Normalizer* normalizer_;
  const PreTokenizer* pre_tokenizer_;
  std::mutex mutex_;
  std::vector<WordCounter*> free_counters_;
};

}  // namespace

Result<WordCounts> count_words(Corpus& corpus, const TrainSettings& settings, ThreadPool& pool,
                               const std::function<void(const TrainStage&)>& progress) {
  const size_t max_memory = settings.max_memory;
  MAKAR_TRY(const auto normalizer, Normalizer::from_json(settings.pipeline.normalizer));
  MAKAR_TRY(const auto pre_tokenizer,
            PreTokenizer::from_json(settings.pipeline.pre_tokenizer, trains_on_bytes(settings)));
  if (max_memory < kMinMemoryBytes)
    return error_of(Error::Kind::kLimit, "max_memory", "training needs at least {} MiB, got {} bytes",
                    kMinMemoryBytes >> 20, max_memory);
  const auto threads = static_cast<size_t>(pool.threads());
  const char* tmpdir = std::getenv("TMPDIR");
  const std::string folder = !settings.temporary_folder.empty() ? settings.temporary_folder
                             : tmpdir && *tmpdir                ? tmpdir
                                                                : "/tmp";
  // While counting, memory holds the blocks being read and one table per thread. A table doubles as it grows,
  // so it spills at half its share.
  const size_t blocks_at_once = 2 * threads;
  const size_t tables = max_memory - std::min(max_memory / 2, blocks_at_once * kBlockMemoryBytes);
  ParallelWordCounter counting(normalizer.get(), pre_tokenizer.get(), threads,
                               std::max<size_t>(tables / threads / 2, 1 << 20), folder);
  std::vector<SequenceBlock> blocks(blocks_at_once);
  bool more = true;
  while (more) {
    size_t filled = 0;
    while (filled < blocks.size()) {
      MAKAR_TRY(more, corpus.next(blocks[filled]));
      if (!more) break;
      ++filled;
    }
    std::mutex mutex;
    Status first_error = Done{};
    pool.run(static_cast<int64_t>(filled), [&](int64_t i) {
      Status status = counting.count(blocks[i]);
      const std::lock_guard lock(mutex);
      if (!status.ok() && first_error.ok()) first_error = std::move(status);
    });
    MAKAR_RETURN_IF_ERROR(std::move(first_error));
    if (progress)
      progress({"count", corpus.bytes_read(), std::max(corpus.bytes_total(), corpus.bytes_read())});
  }
  // Unigram stores all segmentations of a word: about 100 bytes per byte of the word, measured on English.
  constexpr size_t kUnigramBytesPerByte = 100, kBytesPerByte = 9;
  const bool unigram = settings.model == TrainSettings::Model::kUnigram;
  return WordCounter::finish(counting.counters, max_memory / 2,
                             unigram ? kUnigramBytesPerByte : kBytesPerByte);
}

}  // namespace makar
