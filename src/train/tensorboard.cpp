#include "train/tensorboard.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace makar {
namespace {

void append_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  out += static_cast<char>(v);
}
void field_bytes(std::string& out, uint32_t number, const std::string& bytes) {
  append_varint(out, number << 3 | 2);
  append_varint(out, bytes.size());
  out += bytes;
}
template <class T>
void append_raw(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
std::string event_head(int64_t step) {
  std::string out;
  out += static_cast<char>(1 << 3 | 1);
  append_raw(out, wall_time());
  out += static_cast<char>(2 << 3);
  append_varint(out, static_cast<uint64_t>(step));
  return out;
}

// The checksum of TFRecord files: rotated, plus a constant.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t c = crc32c(bytes);
  return (c >> 15 | c << 17) + 0xa282ead8u;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int k = 0; k < 8; ++k) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0x82F63B78u : 0);
    }
    return t;
  }();
  uint32_t c = ~0u;
  for (const char b : bytes) c = table[(c ^ static_cast<unsigned char>(b)) & 255] ^ c >> 8;
  return ~c;
}

Result<EventFile> EventFile::create(const std::string& folder) {
  const std::string path = fmt::format("{}/events.out.tfevents.{:.0f}.makar", folder, wall_time() * 1e3);
  std::FILE* f = std::fopen(path.c_str(), "ab");
  if (!f) return error_of(Error::Kind::kIo, path, "cannot create: {}", std::strerror(errno));
  EventFile out(f, path);
  std::string event = event_head(0);
  field_bytes(event, 3, "brain.Event:2");
  MAKAR_RETURN_IF_ERROR(out.write(event));
  return out;
}

Status EventFile::write(const std::string& event) {
  std::string length, out;
  append_raw(length, static_cast<uint64_t>(event.size()));
  out = length;
  append_raw(out, masked_crc(length));
  out += event;
  append_raw(out, masked_crc(event));
  if (std::fwrite(out.data(), 1, out.size(), file_.get()) != out.size() || std::fflush(file_.get()) != 0)
    return error_of(Error::Kind::kIo, path_, "cannot write: {}", std::strerror(errno));
  return Done{};
}

// Summary { repeated Value value = 1; }, Value { string tag = 1; float simple_value = 2; }
Status EventFile::scalar(const std::string& tag, int64_t step, double value) {
  std::string v, summary, event = event_head(step);
  field_bytes(v, 1, tag);
  v += static_cast<char>(2 << 3 | 5);
  append_raw(v, static_cast<float>(value));
  field_bytes(summary, 1, v);
  field_bytes(event, 5, summary);
  return write(event);
}

}  // namespace makar
