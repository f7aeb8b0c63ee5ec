// The wire format of protocol buffers: enough to read the fields of a message, every length checked.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"

namespace makar {

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;      // varint, or the bits of a fixed-size number
    std::string_view bytes;  // strings and messages
    float as_float() const {
      const auto bits = static_cast<uint32_t>(value);
      float out;
      std::memcpy(&out, &bits, 4);
      return out;
    }
  };
  bool done() const { return at_ >= bytes_.size(); }
  Result<Field> next();

 private:
  Result<uint64_t> varint();
  std::string_view bytes_;
  size_t at_ = 0;
};

class WireWriter {
 public:
  void number(uint32_t field, uint64_t value);
  void real(uint32_t field, float value);
  void bytes(uint32_t field, std::string_view value);
  const std::string& out() const { return out_; }

 private:
  void varint(uint64_t value);
  std::string out_;
};

}  // namespace makar
