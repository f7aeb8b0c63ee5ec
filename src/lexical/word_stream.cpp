#include "lexical/word_stream.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/file.h"

namespace makar {

Result<MappedRecords> MappedRecords::create() {
  const char* folder = std::getenv("TMPDIR");
  MappedRecords out;
  MAKAR_TRY(out.fd_, open_unnamed_file(folder && *folder ? folder : "/tmp"));
  return out;
}

MappedRecords::MappedRecords(MappedRecords&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      buffer_(std::move(other.buffer_)),
      data_(std::exchange(other.data_, nullptr)),
      mapped_bytes_(other.mapped_bytes_) {}

MappedRecords::~MappedRecords() {
  if (data_) munmap(data_, mapped_bytes_);
  if (fd_ >= 0) close(fd_);
}

Status MappedRecords::flush() {
  for (size_t at = 0; at < buffer_.size();) {
    const ssize_t n = ::write(fd_, buffer_.data() + at, buffer_.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io_error("the folder for temporary files (TMPDIR)", "write");
    at += static_cast<size_t>(n);
  }
  buffer_.clear();
  return Done{};
}

Status MappedRecords::write(const void* bytes, size_t size) {
  check(!data_, "records are written before they are mapped");
  buffer_.append(static_cast<const char*>(bytes), size);
  size_ += size;
  return buffer_.size() < size_t{1} << 20 ? Status(Done{}) : flush();
}

Status MappedRecords::map() {
  MAKAR_RETURN_IF_ERROR(flush());
  if (size_ == 0) return Done{};
  void* data = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return io_error("a temporary file", "map");
  data_ = static_cast<std::byte*>(data), mapped_bytes_ = size_;
  return Done{};
}

Result<WordStream> read_words(const std::vector<DataPath>& paths, const WordOptions& options,
                              int64_t min_count, int64_t max_words,
                              const std::function<void(uint64_t, size_t)>& progress) {
  constexpr size_t kMaxWords = 100'000'000;
  MAKAR_TRY(MappedRecords ids, MappedRecords::create());
  NumberedWords seen;
  std::vector<uint64_t> counts;
  WordSplitter splitter(options);
  uint64_t tokens = 0;
  MAKAR_RETURN_IF_ERROR(each_line(paths, [&](std::string_view line) -> Status {
    const auto& words = splitter.split(line);
    if (words.empty()) return Done{};
    for (const std::string_view word : words) {
      const uint32_t id = seen.add(word);
      if (id == counts.size()) counts.push_back(0);
      ++counts[id];
      MAKAR_RETURN_IF_ERROR(ids.write(&id, sizeof id));
    }
    if (seen.size() > kMaxWords)
      return error_of(Error::Kind::kLimit, "vocabulary", "there are more than {} different words", kMaxWords);
    tokens += words.size();
    progress(tokens, seen.size());
    return ids.write(&WordStream::kLineEnd, sizeof(uint32_t));
  }));
  MAKAR_RETURN_IF_ERROR(ids.map());
  std::vector<uint32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
  WordStream out{{}, {}, std::move(ids)};
  std::vector<uint32_t> new_ids(counts.size(), WordStream::kLineEnd);
  for (const uint32_t old : order) {
    if (counts[old] < static_cast<uint64_t>(min_count) ||
        (max_words > 0 && out.words.size() == static_cast<size_t>(max_words)))
      break;
    new_ids[old] = out.words.add(seen.word(old));
    out.counts.push_back(counts[old]);
  }
  const auto all_ids = out.ids.as<uint32_t>();
  for (const uint32_t id : all_ids) {
    const bool end = id == WordStream::kLineEnd;
    if (!end && new_ids[id] == WordStream::kLineEnd) continue;
    all_ids[out.size++] = end ? id : new_ids[id];
    out.tokens += !end;
  }
  if (out.tokens == 0)
    return error_at("words",
                    "no word occurs {} times or more in the text; use a smaller `min_count` or more text",
                    min_count);
  return out;
}

}  // namespace makar
