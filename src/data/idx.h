// IDX files (MNIST and similar datasets): a big-endian header, then bytes. Plain or compressed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/byte_stream.h"

namespace makar {

struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
};

Result<IdxArray> read_idx(ByteStream& stream);

struct LabelledImages {
  int64_t count = 0, height = 0, width = 0;
  std::vector<uint8_t> pixels;  // [count, height, width]
  std::vector<uint8_t> labels;  // [count]
};
// Reads the images of PATH (…images-idx3-ubyte) and the labels in the same folder (…labels-idx1-ubyte).
Result<LabelledImages> read_labelled_images(const std::string& path);

}  // namespace makar
