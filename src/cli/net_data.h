// Reads the data of `makar net`: images, bags of words and sentences.
#pragma once
#include <string>
#include <vector>

#include "cli/data_paths.h"
#include "lexical/corpus.h"
#include "nets/numbers.h"

namespace makar {

// Images of an IDX file, or bags of words of texts: for each of the `words` most frequent words, or of the
// words in `known`, 1 if the text has it, else 0.
inline Result<Numbers> read_examples_of(const std::string& path, int64_t words, int64_t limit,
                                        const std::vector<std::string>& known) {
  if (path.find("idx3-ubyte") != std::string::npos) return read_images(path, static_cast<size_t>(limit));
  MAKAR_TRY(const DatasetSpec spec, parse_dataset(path));
  return read_bags({spec.data()}, static_cast<size_t>(words), static_cast<size_t>(limit), known);
}

// The lines that are not empty; an error above 1 GiB of text.
inline Result<std::vector<std::string>> read_sentences(const std::vector<std::string>& files) {
  constexpr size_t kMaxBytes = size_t{1} << 30;
  MAKAR_TRY(const std::vector<DataPath> paths, parse_data_paths(files));
  std::vector<std::string> lines;
  size_t bytes = 0;
  MAKAR_RETURN_IF_ERROR(each_line(paths, [&](std::string_view line) -> Status {
    if ((bytes += line.size()) > kMaxBytes)
      return error_of(Error::Kind::kLimit, "data", "has more than {} bytes of text; use a part of it",
                      kMaxBytes);
    if (!line.empty()) lines.emplace_back(line);
    return Done{};
  }));
  return lines;
}

inline std::vector<float> values_of(const Tensor& t) {
  const Tensor host = t.host();
  return {host.f32(), host.f32() + host.count()};
}

}  // namespace makar
