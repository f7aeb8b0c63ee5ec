#include "formats/zip_index.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/quote.h"

namespace makar {
namespace {

// The signatures of the records of an archive, and their lengths without names and extra fields.
constexpr uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50,
                   kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr size_t kMaxZipFiles = 1'000'000;

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  Result<ZipFiles> run() {
    MAKAR_TRY(const size_t end, find_end());
    uint64_t count = get<uint16_t>(end + 10), at = get<uint32_t>(end + 16);
    if (end >= kLocatorBytes && get<uint32_t>(end - kLocatorBytes) == kLocator64Signature) {
      const auto end64 = get<uint64_t>(end - kLocatorBytes + 8);
      if (!fits(end64, kEnd64Bytes) || get<uint32_t>(end64) != kEnd64Signature)
        return broken(end - kLocatorBytes, "points to a zip64 directory that is not there");
      count = get<uint64_t>(end64 + 32), at = get<uint64_t>(end64 + 48);
    }
    if (count > kMaxZipFiles)
      return error_of(Error::Kind::kLimit, place_, "the zip archive lists {} files; at most {} are allowed",
                      count, kMaxZipFiles);
    ZipFiles files;
    for (uint64_t i = 0; i < count; ++i) MAKAR_RETURN_IF_ERROR(read_entry(at, files));
    return files;
  }

 private:
  template <class T>
  T get(uint64_t at) const {
    T v;
    std::memcpy(&v, bytes_.data() + at, sizeof(T));
    return v;
  }
  bool fits(uint64_t at, uint64_t size) const { return at <= bytes_.size() && size <= bytes_.size() - at; }
  Error broken(uint64_t at, const char* what) const {
    return error_at(place_, "the zip archive is corrupt: the record at byte {} {}; download the file again",
                    at, what);
  }

  // The last record of the archive; a comment of up to 65535 bytes may follow it.
  Result<size_t> find_end() const {
    if (bytes_.size() >= kEndBytes) {
      const size_t last = bytes_.size() - kEndBytes, first = last - std::min<size_t>(last, 65535);
      for (size_t at = last + 1; at-- > first;)
        if (get<uint32_t>(at) == kEndSignature) return at;
    }
    return error_at(place_, "the zip archive has no directory at its end; the download is incomplete");
  }

  Status read_entry(uint64_t& at, ZipFiles& files) const {
    if (!fits(at, kCentralBytes) || get<uint32_t>(at) != kCentralSignature)
      return broken(at, "is not an entry of the directory");
    const auto method = get<uint16_t>(at + 10), name_bytes = get<uint16_t>(at + 28),
               extra_bytes = get<uint16_t>(at + 30), comment_bytes = get<uint16_t>(at + 32);
    const uint64_t entry_bytes = kCentralBytes + uint64_t{name_bytes} + extra_bytes + comment_bytes;
    if (!fits(at, entry_bytes)) return broken(at, "extends past the end of the archive");
    const std::string name(reinterpret_cast<const char*>(bytes_.data() + at + kCentralBytes), name_bytes);
    uint64_t compressed = get<uint32_t>(at + 20), size = get<uint32_t>(at + 24),
             local = get<uint32_t>(at + 42);
    read_zip64(at + kCentralBytes + name_bytes, extra_bytes, size, compressed, local);
    if (method != 0)
      return error_of(Error::Kind::kUnsupported, place_,
                      "the file {} in the zip archive is compressed; PyTorch writes archives without "
                      "compression: unpack it and save it again with torch.save",
                      quote(name));
    if (compressed != size) return broken(at, "has two different sizes for a stored file");
    if (!fits(local, kLocalBytes) || get<uint32_t>(local) != kLocalSignature)
      return broken(at, "points to a file that is not there");
    const uint64_t data = local + kLocalBytes + get<uint16_t>(local + 26) + get<uint16_t>(local + 28);
    if (!fits(data, size)) return broken(at, "has a file that extends past the end of the archive");
    if (!files.emplace(name, bytes_.subspan(data, size)).second) return broken(at, "repeats a name");
    at += entry_bytes;
    return Done{};
  }

  // Fields with all bits set are replaced, in this order, by the values of the zip64 extra field (id 1).
  void read_zip64(uint64_t at, uint64_t bytes, uint64_t& size, uint64_t& compressed, uint64_t& local) const {
    const uint64_t end = at + bytes;
    while (at + 4 <= end) {
      const auto id = get<uint16_t>(at), length = get<uint16_t>(at + 2);
      uint64_t field = at + 4;
      at = field + length;
      if (id != 1 || at > end) continue;
      for (uint64_t* v : {&size, &compressed, &local})
        if (*v == 0xffffffffu && field + 8 <= at) *v = get<uint64_t>(field), field += 8;
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& place_;
};

}  // namespace

Result<ZipFiles> read_zip_index(std::span<const std::byte> bytes, const std::string& place) {
  return ZipReader(bytes, place).run();
}

}  // namespace makar
