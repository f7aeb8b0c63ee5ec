#include "data/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/file.h"

namespace makar {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;

class FileStream : public ByteStream {
 public:
  FileStream(std::FILE* file, std::string place) : file_(file), place_(std::move(place)) {}
  ~FileStream() override { std::fclose(file_); }
  const std::string& place() const override { return place_; }
  Result<size_t> read(std::span<char> out) override {
    const size_t n = std::fread(out.data(), 1, out.size(), file_);
    if (n < out.size() && std::ferror(file_))
      return error_of(Error::Kind::kIo, place_, "cannot read: {}", std::strerror(errno));
    return n;
  }

 private:
  std::FILE* file_;
  std::string place_;
};

class MemoryStream : public ByteStream {
 public:
  MemoryStream(std::string bytes, std::string place) : bytes_(std::move(bytes)), place_(std::move(place)) {}
  const std::string& place() const override { return place_; }
  Result<size_t> read(std::span<char> out) override {
    const size_t n = std::min(out.size(), bytes_.size() - at_);
    if (n > 0) std::memcpy(out.data(), bytes_.data() + at_, n);
    at_ += n;
    return n;
  }

 private:
  std::string bytes_, place_;
  size_t at_ = 0;
};

// The base of the streams below: buffers a block of input. The first block has the bytes that were read to
// detect the format.
class Decoder : public ByteStream {
 public:
  Decoder(std::unique_ptr<ByteStream> inner, std::string head)
      : inner_(std::move(inner)), buffer_(std::move(head)) {}
  const std::string& place() const override { return inner_->place(); }

 protected:
  std::string_view pending() const { return std::string_view(buffer_).substr(used_); }
  void take(size_t n) { used_ += n; }
  Result<bool> refill() {  // false: end of input
    buffer_.resize(kBlockBytes);
    used_ = 0;
    MAKAR_TRY(const size_t n, inner_->read({buffer_.data(), kBlockBytes}));
    buffer_.resize(n);
    return n > 0;
  }
  Error broken(const std::string& what) const {
    return error_at(place(), "{}; the file is damaged or its download is incomplete", what);
  }

 private:
  std::unique_ptr<ByteStream> inner_;
  std::string buffer_;
  size_t used_ = 0;
};

class PlainStream : public Decoder {
 public:
  using Decoder::Decoder;
  Result<size_t> read(std::span<char> out) override {
    size_t done = 0;
    while (done < out.size()) {
      if (pending().empty()) {
        MAKAR_TRY(const bool more, refill());
        if (!more) break;
      }
      const size_t n = std::min(out.size() - done, pending().size());
      std::memcpy(out.data() + done, pending().data(), n);
      take(n), done += n;
    }
    return done;
  }
};

class GzipStream : public Decoder {
 public:
  GzipStream(std::unique_ptr<ByteStream> inner, std::string head)
      : Decoder(std::move(inner), std::move(head)) {
    constexpr int kWindowBits = 15, kGzip = 16;
    check(inflateInit2(&z_, kWindowBits + kGzip) == Z_OK, "zlib cannot be initialised");
  }
  ~GzipStream() override { inflateEnd(&z_); }

  Result<size_t> read(std::span<char> out) override {
    z_.next_out = reinterpret_cast<Bytef*>(out.data());
    z_.avail_out = static_cast<uInt>(out.size());
    while (z_.avail_out > 0) {
      if (pending().empty()) {
        MAKAR_TRY(const bool more, refill());
        if (!more && inside_) return broken("the gzip data ends early");
        if (!more) break;
      }
      z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(pending().data()));
      z_.avail_in = static_cast<uInt>(pending().size());
      const size_t before = z_.avail_in;
      inside_ = true;
      const int code = inflate(&z_, Z_NO_FLUSH);
      take(before - z_.avail_in);
      if (code == Z_STREAM_END) {  // another gzip member may follow
        inside_ = false;
        inflateReset(&z_);
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return broken(fmt::format("the gzip data is broken ({})", z_.msg ? z_.msg : "no reason given"));
      }
    }
    return out.size() - z_.avail_out;
  }

 private:
  z_stream z_{};
  bool inside_ = true;  // inside a gzip member
};

class ZstdStream : public Decoder {
 public:
  ZstdStream(std::unique_ptr<ByteStream> inner, std::string head)
      : Decoder(std::move(inner), std::move(head)), z_(ZSTD_createDStream()) {
    check(z_ != nullptr, "zstd cannot be initialised");
    ZSTD_DCtx_setParameter(z_, ZSTD_d_windowLogMax, 27);  // 128 MiB, the limit of the zstd tool
  }
  ~ZstdStream() override { ZSTD_freeDStream(z_); }

  Result<size_t> read(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos < to.size) {
      if (pending().empty() && !inside_) {  // between frames
        MAKAR_TRY(const bool more, refill());
        if (!more) break;
      }
      ZSTD_inBuffer from{pending().data(), pending().size(), 0};
      const size_t before = to.pos;
      const size_t code = ZSTD_decompressStream(z_, &to, &from);
      take(from.pos);
      if (ZSTD_isError(code))
        return broken(fmt::format("the zstd data is broken ({})", ZSTD_getErrorName(code)));
      inside_ = code != 0;
      if (inside_ && to.pos == before && pending().empty()) {
        MAKAR_TRY(const bool more, refill());
        if (!more) return broken("the zstd data ends early");
      }
    }
    return to.pos;
  }

 private:
  ZSTD_DStream* z_;
  bool inside_ = false;  // inside a zstd frame
};

Result<std::unique_ptr<ByteStream>> decompressed(std::unique_ptr<ByteStream> raw) {
  std::string head(4, '\0');
  MAKAR_TRY(const size_t n, raw->read({head.data(), head.size()}));
  head.resize(n);
  using Stream = std::unique_ptr<ByteStream>;
  if (head.starts_with("\x1f\x8b")) return Stream(new GzipStream(std::move(raw), std::move(head)));
  if (head == "\x28\xb5\x2f\xfd") return Stream(new ZstdStream(std::move(raw), std::move(head)));
  return Stream(new PlainStream(std::move(raw), std::move(head)));
}

}  // namespace

Result<std::unique_ptr<ByteStream>> ByteStream::open(const std::string& path) {
  if (is_folder(path)) return error_at(path, "expected a file, found a folder");
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file)
    return error_of(errno == ENOENT ? Error::Kind::kNotFound : Error::Kind::kIo, path, "cannot open: {}",
                    std::strerror(errno));
  return decompressed(std::make_unique<FileStream>(file, path));
}

Result<std::unique_ptr<ByteStream>> ByteStream::from_memory(std::string bytes, const std::string& place) {
  return decompressed(std::make_unique<MemoryStream>(std::move(bytes), place));
}

Result<std::string> read_all(ByteStream& stream, size_t limit) {
  std::string all;
  for (std::vector<char> block(kBlockBytes);;) {
    MAKAR_TRY(const size_t n, stream.read(block));
    if (n == 0) return all;
    all.append(block.data(), n);
    if (all.size() > limit)
      return error_of(Error::Kind::kLimit, stream.place(), "is larger than the limit of {} bytes", limit);
  }
}

}  // namespace makar
