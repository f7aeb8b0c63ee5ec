#include "data/idx.h"

namespace makar {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 31;  // of an array

Status fill(ByteStream& stream, std::span<char> out) {
  MAKAR_TRY(const size_t n, stream.read(out));
  if (n != out.size())
    return error_at(stream.place(), "the IDX data ends early: {} bytes where {} are expected", n, out.size());
  return Done{};
}

}  // namespace

Result<IdxArray> read_idx(ByteStream& stream) {
  unsigned char head[4];
  MAKAR_RETURN_IF_ERROR(fill(stream, {reinterpret_cast<char*>(head), 4}));
  if (head[0] != 0 || head[1] != 0 || head[2] != 8)
    return error_at(stream.place(), "is not an IDX file of bytes (it begins with {:02x} {:02x} {:02x})",
                    head[0], head[1], head[2]);
  if (head[3] < 1 || head[3] > 4)
    return error_at(stream.place(), "has {} dimensions; 1 to 4 are expected", head[3]);
  IdxArray out;
  int64_t count = 1;
  for (int d = 0; d < head[3]; ++d) {
    unsigned char b[4];
    MAKAR_RETURN_IF_ERROR(fill(stream, {reinterpret_cast<char*>(b), 4}));
    const int64_t n = int64_t{b[0]} << 24 | int64_t{b[1]} << 16 | int64_t{b[2]} << 8 | b[3];
    if (n < 1) return error_at(stream.place(), "dimension {} is 0: the array is empty", d);
    if (count > kMaxBytes / n)
      return error_at(stream.place(), "dimension {} is {}: the array exceeds the limit of {} bytes", d, n,
                      kMaxBytes);
    out.dims.push_back(n);
    count *= n;
  }
  // Grow with the bytes actually read: the header's sizes are not trusted.
  std::vector<char> block(size_t{1} << 20);
  while (static_cast<int64_t>(out.bytes.size()) < count) {
    const auto size = std::min<size_t>(block.size(), static_cast<size_t>(count) - out.bytes.size());
    MAKAR_RETURN_IF_ERROR(fill(stream, {block.data(), size}));
    out.bytes.insert(out.bytes.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(size));
  }
  MAKAR_TRY(const size_t extra, stream.read({block.data(), 1}));
  if (extra != 0) return error_at(stream.place(), "has more than the {} bytes of its dimensions", count);
  return out;
}

Result<LabelledImages> read_labelled_images(const std::string& path) {
  const size_t at = path.rfind("images-idx3");
  if (at == std::string::npos)
    return error_at(
        path, "images are read from files named …images-idx3-ubyte with …labels-idx1-ubyte next to them");
  std::string label_path = path;
  label_path.replace(at, 11, "labels-idx1");
  MAKAR_TRY(const auto image_stream, ByteStream::open(path));
  MAKAR_TRY(IdxArray images, read_idx(*image_stream));
  MAKAR_TRY(const auto label_stream, ByteStream::open(label_path));
  MAKAR_TRY(IdxArray labels, read_idx(*label_stream));
  if (images.dims.size() != 3) return error_at(path, "must be [images, height, width]");
  if (labels.dims.size() != 1 || labels.dims[0] != images.dims[0])
    return error_at(label_path, "must hold one label for each of the {} images", images.dims[0]);
  return LabelledImages{images.dims[0], images.dims[1], images.dims[2], std::move(images.bytes),
                        std::move(labels.bytes)};
}

}  // namespace makar
