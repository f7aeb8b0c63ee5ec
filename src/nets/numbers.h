// Examples as rows of numbers: images of IDX files, or texts as bags of words.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "data/record_reader.h"
#include "kernels/device.h"
#include "tensor/tensor.h"

namespace makar {

// The rows of `values` [count, width] with these indices, on the device: [indices, width].
Tensor select_rows(Device& device, const std::vector<float>& values, size_t width,
                   std::span<const size_t> indices);

struct Numbers {
  size_t count = 0, width = 0;
  int64_t height = 0, columns = 0;  // of images; 0 for bags of words
  std::vector<float> values;        // [count, width], from 0 to 1
  std::vector<std::string> labels;  // one per example, or none
  std::vector<std::string> words;   // of bags of words: the word of each column
  // Rows of these examples on the device: [examples, width].
  Tensor rows(Device& device, std::span<const size_t> examples) const;
};

// Images with values from 0 (black) to 1; at most `limit` of them, 0 for all.
Result<Numbers> read_images(const std::string& path, size_t limit);
// At most `limit` texts, 0 for all. One column for each of the `max_words` most frequent words, in lower
// case, ties in alphabetical order; or for each of `words`. A value is 1 if the word occurs in the text, else
// 0.
Result<Numbers> read_bags(const std::vector<DataPath>& paths, size_t max_words, size_t limit,
                          const std::vector<std::string>& words = {});

}  // namespace makar
