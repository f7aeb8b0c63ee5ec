#include "text/train/corpus.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/rng.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr size_t kMaxSequenceBytes = 1 << 20;
constexpr size_t kMaxRecordBytes = 64 << 20;  // of one JSONL line

}  // namespace

Result<Corpus> Corpus::open(const CorpusOptions& options) {
  Corpus corpus;
  corpus.options_ = options;
  if (options.paths.empty()) return error_at("corpus", "expected at least one file");
  if (!(options.sample > 0 && options.sample <= 1))
    return error_at("sample", "expected a share above 0 and at most 1, got {}", options.sample);
  for (const std::string& path : options.paths) {
    if (path == "-") continue;
    std::error_code code;
    if (std::filesystem::is_directory(path, code)) return error_at(path, "is a folder; pass the files in it");
    const auto size = std::filesystem::file_size(path, code);
    if (!code)
      corpus.total_bytes_ += size;
    else if (!std::filesystem::exists(path))
      return error_of(Error::Kind::kNotFound, path, "no such file");
  }
  MAKAR_RETURN_IF_ERROR(corpus.open_next());
  return corpus;
}

Status Corpus::open_next() {
  file_.reset();
  if (next_path_ >= options_.paths.size()) return Done{};
  path_ = options_.paths[next_path_++];
  jsonl_ = options_.jsonl || path_.ends_with(".jsonl");
  line_number_ = 0;
  file_.reset(path_ == "-" ? stdin : std::fopen(path_.c_str(), "rb"));
  if (!file_) return error_of(Error::Kind::kIo, path_, "cannot be opened: {}", std::strerror(errno));
  return Done{};
}

void Corpus::add_sequence(std::string_view text, SequenceBlock& block) {
  const uint64_t index = sequences_++;
  if (options_.sample < 1 && Rng(options_.seed, Purpose::kSample).uniform_double(index) >= options_.sample)
    return;
  if (is_valid_utf8(text))
    block.bytes += text;
  else
    block.bytes += to_valid_utf8(text);
  block.ends.push_back(block.bytes.size());
}

Status Corpus::add_line(std::string_view line, SequenceBlock& block) {
  ++line_number_;
  std::string text;
  if (jsonl_) {
    if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) return Done{};
    const std::string place = fmt::format("{}:{}", path_, line_number_);
    MAKAR_TRY(const Json record, parse_json(line, place));
    if (!record.is_object() || !record.contains(options_.field) || !record[options_.field].is_string())
      return error_at(place, "has no string field \"{}\"", options_.field);
    text = record[options_.field].get<std::string>();
    line = text;
  }
  while (line.size() > kMaxSequenceBytes) {
    const size_t cut = complete_utf8_prefix(line.substr(0, kMaxSequenceBytes));
    add_sequence(line.substr(0, cut ? cut : kMaxSequenceBytes), block);
    line.remove_prefix(cut ? cut : kMaxSequenceBytes);
  }
  if (!line.empty()) add_sequence(line, block);
  return Done{};
}

Result<bool> Corpus::next(SequenceBlock& block) {
  block.bytes.clear(), block.ends.clear();
  std::string buffer(kBlockBytes, '\0');
  while (file_ && block.bytes.size() < kBlockBytes / 2) {
    const size_t received = std::fread(buffer.data(), 1, buffer.size(), file_.get());
    if (received == 0 && std::ferror(file_.get()))
      return error_of(Error::Kind::kIo, path_, "reading failed: {}", std::strerror(errno));
    bytes_read_ += received;
    rest_.append(buffer, 0, received);
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
      MAKAR_RETURN_IF_ERROR(add_line(std::string_view(rest_).substr(begin, end + 1 - begin), block));
    rest_.erase(0, begin);
    const size_t max = jsonl_ ? kMaxRecordBytes : kMaxSequenceBytes;
    if (rest_.size() > max) {
      if (jsonl_)
        return error_of(Error::Kind::kLimit, fmt::format("{}:{}", path_, line_number_ + 1),
                        "the record exceeds {} bytes; split it", kMaxRecordBytes);
      const size_t cut = complete_utf8_prefix(std::string_view(rest_).substr(0, max));
      add_sequence(std::string_view(rest_).substr(0, cut ? cut : max), block);
      rest_.erase(0, cut ? cut : max);
    }
    if (received == 0) {
      if (!rest_.empty()) MAKAR_RETURN_IF_ERROR(add_line(rest_, block));
      rest_.clear();
      MAKAR_RETURN_IF_ERROR(open_next());
    }
  }
  return file_ != nullptr || !block.ends.empty();
}

}  // namespace makar
