// A model split over several GGUF files, as llama-gguf-split writes them: NAME-00001-of-00003.gguf and so on.
// The first file has the metadata; "split.no" and "split.count" of each file are its index and the number of
// files.
#pragma once
#include <string>
#include <vector>

#include "formats/gguf_value.h"

namespace makar {

inline constexpr const char* kSplitNumber = "split.no";
inline constexpr const char* kSplitCount = "split.count";
inline constexpr const char* kSplitTensors = "split.tensors.count";

// The paths of the other files of the model whose first file is `path`; empty when the model is one file. A
// file that is not the first is an error that names the first.
Result<std::vector<std::string>> gguf_split_paths(const GgufFields& fields, const std::string& path);
// Checks that the file at `path` is marked as file `index` (from 0) of `count`.
Status check_gguf_part(const GgufFields& fields, const std::string& path, size_t index, size_t count);
// "NAME-00002-of-00003.gguf": a file of a split model other than the first.
bool is_further_gguf_part(const std::string& path);

}  // namespace makar
