#include "text/read/wire.h"

namespace makar {

Result<uint64_t> WireReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ >= bytes_.size()) return error_at(fmt::format("byte {}", at_), "the file ends inside a varint");
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (!(byte & 0x80)) return value;
  }
  return error_at(fmt::format("byte {}", at_), "a varint has more than ten bytes");
}

Result<WireReader::Field> WireReader::next() {
  const size_t start = at_;
  MAKAR_TRY(const uint64_t tag, varint());
  Field field;
  field.number = static_cast<uint32_t>(tag >> 3);
  if (field.number == 0) return error_at(fmt::format("byte {}", start), "not a protocol buffer (field 0)");
  size_t size = 0;
  switch (tag & 7) {
    case 0: {
      MAKAR_TRY(field.value, varint());
      return field;
    }
    case 1:
      size = 8;
      break;
    case 5:
      size = 4;
      break;
    case 2: {
      MAKAR_TRY(const uint64_t length, varint());
      if (length > bytes_.size() - at_)
        return error_at(fmt::format("byte {}", start),
                        "field {} has {} bytes but only {} are left; the download may be incomplete",
                        field.number, length, bytes_.size() - at_);
      field.bytes = bytes_.substr(at_, length);
      at_ += length;
      return field;
    }
    default:
      return error_at(fmt::format("byte {}", start), "not a protocol buffer (wire type {})", tag & 7);
  }
  if (size > bytes_.size() - at_)
    return error_at(fmt::format("byte {}", start), "the file ends inside field {}", field.number);
  std::memcpy(&field.value, bytes_.data() + at_, size);
  at_ += size;
  return field;
}

void WireWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
  out_.push_back(static_cast<char>(value));
}
void WireWriter::number(uint32_t field, uint64_t value) {
  varint(uint64_t{field} << 3);
  varint(value);
}
void WireWriter::real(uint32_t field, float value) {
  varint(uint64_t{field} << 3 | 5);
  char bits[4];
  std::memcpy(bits, &value, 4);
  out_.append(bits, 4);
}
void WireWriter::bytes(uint32_t field, std::string_view value) {
  varint(uint64_t{field} << 3 | 2);
  varint(value.size());
  out_ += value;
}

}  // namespace makar
