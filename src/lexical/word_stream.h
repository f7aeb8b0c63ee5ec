// A corpus as word ids, in an unnamed file that is mapped: memory does not grow with the corpus, only with
// the vocabulary.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lexical/corpus.h"
#include "lexical/numbered_words.h"

namespace makar {

// An unnamed file of equal records, written once in order, then mapped.
class MappedRecords {
 public:
  // In the folder for temporary files (TMPDIR, or /tmp).
  static Result<MappedRecords> create();
  MappedRecords(MappedRecords&& other) noexcept;
  MappedRecords& operator=(MappedRecords&&) = delete;
  ~MappedRecords();

  Status write(const void* bytes, size_t size);
  Status map();  // for reading and writing; no write() after it
  std::span<std::byte> bytes() const { return {data_, mapped_bytes_}; }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), mapped_bytes_ / sizeof(T)};
  }
  uint64_t size() const { return size_; }

 private:
  MappedRecords() = default;
  Status flush();
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string buffer_;
  std::byte* data_ = nullptr;
  size_t mapped_bytes_ = 0;
};

struct WordStream {
  static constexpr uint32_t kLineEnd = ~uint32_t{0};

  NumberedWords words;           // by descending count, then in order of the first occurrence
  std::vector<uint64_t> counts;  // of each word
  MappedRecords ids;             // word ids, and kLineEnd after each line
  uint64_t size = 0;             // ids in use, after rare words are removed
  uint64_t tokens = 0;           // without line ends

  std::span<const uint32_t> tokens_of_chunk(uint64_t chunk, uint64_t chunk_size) const {
    return ids.as<const uint32_t>().subspan(chunk * chunk_size,
                                            std::min(chunk_size, size - chunk * chunk_size));
  }
};

// Drops words that occur fewer than `min_count` times and, if `max_words` is not 0, all but the `max_words`
// most frequent ones.
Result<WordStream> read_words(const std::vector<DataPath>& paths, const WordOptions& options,
                              int64_t min_count, int64_t max_words,
                              const std::function<void(uint64_t tokens, size_t words)>& progress);

}  // namespace makar
