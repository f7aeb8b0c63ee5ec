#include "formats/gguf_split.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/quote.h"

namespace makar {
namespace {

constexpr int64_t kMaxSplitFiles = 4096;

std::string ending(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

}  // namespace

Result<std::vector<std::string>> gguf_split_paths(const GgufFields& fields, const std::string& path) {
  const int64_t count = fields.integer(kSplitCount).value_or(1),
                number = fields.integer(kSplitNumber).value_or(0);
  std::vector<std::string> others;
  if (count <= 1) return others;
  if (count > kMaxSplitFiles || number < 0 || number >= count)
    return error_at(path,
                    "has {} {} and {} {}; the first must be from 0 and below the second, and a model has at "
                    "most {} files",
                    kSplitNumber, number, kSplitCount, count, kMaxSplitFiles);
  const std::string expected_ending = ending(number + 1, count);
  if (!path.ends_with(expected_ending))
    return error_at(
        path,
        "is file {} of {} of a split model, whose files are found by name; rename it so that it ends in {}",
        number + 1, count, quote(expected_ending));
  const std::string stem = path.substr(0, path.size() - expected_ending.size());
  if (number != 0)
    return error_at(path, "is file {} of {} of a split model; pass the first file, {}", number + 1, count,
                    quote(stem + ending(1, count)));
  for (int64_t i = 1; i < count; ++i) {
    others.push_back(stem + ending(i + 1, count));
    if (!is_file(others.back()))
      return error_of(Error::Kind::kNotFound, others.back(),
                      "is missing: it is file {} of {} of the model; download it", i + 1, count);
  }
  return others;
}

Status check_gguf_part(const GgufFields& fields, const std::string& path, size_t index, size_t count) {
  const auto split_number = fields.integer(kSplitNumber), split_count = fields.integer(kSplitCount);
  if (split_number == static_cast<int64_t>(index) && split_count == static_cast<int64_t>(count))
    return Done{};
  return error_at(path,
                  "must be file {} of {} of the model but its keys '{}' and '{}' differ; download it again",
                  index + 1, count, kSplitNumber, kSplitCount);
}

bool is_further_gguf_part(const std::string& path) {
  constexpr size_t kEndingBytes = 20;  // -00002-of-00003.gguf
  if (path.size() < kEndingBytes) return false;
  const std::string end = path.substr(path.size() - kEndingBytes);
  const auto digits = [&](size_t at) {
    return std::all_of(end.begin() + static_cast<long>(at), end.begin() + static_cast<long>(at) + 5,
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  return end[0] == '-' && digits(1) && end.substr(6, 4) == "-of-" && digits(10) && end.ends_with(".gguf") &&
         end.substr(1, 5) != "00001";
}

}  // namespace makar
