#include "text/read/gguf_metadata.h"

#include <cstring>

namespace makar {
namespace {

constexpr uint64_t kMaxKeys = 1 << 16;
constexpr int kFloat32 = 6, kString = 8, kArray = 9, kFloat64 = 12;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  size_t left() const { return bytes_.size() - at_; }
  size_t at() const { return at_; }

  template <class T>
  Result<T> get() {
    if (left() < sizeof(T)) return end_error();
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  Result<std::string_view> text() {
    MAKAR_TRY(const uint64_t size, get<uint64_t>());
    if (size > left())
      return error_at(fmt::format("byte {}", at_),
                      "a string has {} bytes but only {} are left; the download may be incomplete", size,
                      left());
    const std::string_view out = bytes_.substr(at_, size);
    at_ += size;
    return out;
  }
  Error end_error() const {
    return error_at(fmt::format("byte {}", at_),
                    "the file ends inside the metadata; the download may be incomplete");
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

template <class T, class As>
Result<GgufMetadata::Value> number_value(Reader& reader) {
  MAKAR_TRY(const T value, reader.get<T>());
  return GgufMetadata::Value(static_cast<As>(value));
}

Result<GgufMetadata::Value> scalar(Reader& reader, uint32_t type) {
  switch (type) {
    case 0:
      return number_value<uint8_t, uint64_t>(reader);
    case 1:
      return number_value<int8_t, int64_t>(reader);
    case 2:
      return number_value<uint16_t, uint64_t>(reader);
    case 3:
      return number_value<int16_t, int64_t>(reader);
    case 4:
      return number_value<uint32_t, uint64_t>(reader);
    case 5:
      return number_value<int32_t, int64_t>(reader);
    case kFloat32:
      return number_value<float, double>(reader);
    case 7: {
      MAKAR_TRY(const uint8_t value, reader.get<uint8_t>());
      return GgufMetadata::Value(value != 0);
    }
    case kString: {
      MAKAR_TRY(const std::string_view value, reader.text());
      return GgufMetadata::Value(value);
    }
    case 10:
      return number_value<uint64_t, uint64_t>(reader);
    case 11:
      return number_value<int64_t, int64_t>(reader);
    case kFloat64:
      return number_value<double, double>(reader);
    default:
      return error_at(fmt::format("byte {}", reader.at()), "unknown value type {}", type);
  }
}

// The least number of bytes that a value of this type takes.
size_t min_bytes(uint32_t type) {
  constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return type < 13 ? kSizes[type] : 1;
}

Result<GgufMetadata::Value> array(Reader& reader) {
  MAKAR_TRY(const uint32_t type, reader.get<uint32_t>());
  MAKAR_TRY(const uint64_t count, reader.get<uint64_t>());
  if (type == kArray)
    return error_of(Error::Kind::kUnsupported, fmt::format("byte {}", reader.at()),
                    "lists of lists are not supported");
  if (count > reader.left() / min_bytes(type))
    return error_at(fmt::format("byte {}", reader.at()), "a list has {} values but only {} bytes are left",
                    count, reader.left());
  std::vector<std::string_view> texts;
  std::vector<int64_t> numbers;
  std::vector<double> reals;
  for (uint64_t i = 0; i < count; ++i) {
    MAKAR_TRY(const GgufMetadata::Value value, scalar(reader, type));
    if (const auto* text = std::get_if<std::string_view>(&value))
      texts.push_back(*text);
    else if (const auto* u = std::get_if<uint64_t>(&value))
      numbers.push_back(static_cast<int64_t>(*u));
    else if (const auto* s = std::get_if<int64_t>(&value))
      numbers.push_back(*s);
    else if (const auto* b = std::get_if<bool>(&value))
      numbers.push_back(*b);
    else
      reals.push_back(std::get<double>(value));
  }
  if (type == kString) return GgufMetadata::Value(std::move(texts));
  if (type == kFloat32 || type == kFloat64) return GgufMetadata::Value(std::move(reals));
  return GgufMetadata::Value(std::move(numbers));
}

}  // namespace

Result<GgufMetadata> GgufMetadata::parse(std::string_view bytes, std::string_view prefix) {
  if (!bytes.starts_with("GGUF")) return error_at("byte 0", "not a GGUF file: it does not start with GGUF");
  Reader reader(bytes);
  MAKAR_TRY([[maybe_unused]] const uint32_t magic, reader.get<uint32_t>());
  MAKAR_TRY(const uint32_t version, reader.get<uint32_t>());
  if (version != 2 && version != 3)
    return error_of(Error::Kind::kUnsupported, "byte 4",
                    "GGUF version {} is not supported; versions 2 and 3 are", version);
  MAKAR_TRY([[maybe_unused]] const uint64_t tensors, reader.get<uint64_t>());
  MAKAR_TRY(const uint64_t count, reader.get<uint64_t>());
  if (count > kMaxKeys)
    return error_of(Error::Kind::kLimit, "byte 16", "has {} keys; the limit is {}", count, kMaxKeys);
  GgufMetadata metadata;
  for (uint64_t i = 0; i < count; ++i) {
    MAKAR_TRY(const std::string_view key, reader.text());
    MAKAR_TRY(const uint32_t type, reader.get<uint32_t>());
    auto value = type == kArray ? array(reader) : scalar(reader, type);
    if (!value.ok()) return value.error().in(fmt::format("key '{}'", std::string(key.substr(0, 80))));
    if (key.starts_with(prefix)) metadata.values_[std::string(key)] = std::move(*value);
  }
  return metadata;
}

const GgufMetadata::Value* GgufMetadata::find(const std::string& key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}
std::string_view GgufMetadata::text(const std::string& key, std::string_view fallback) const {
  const Value* value = find(key);
  const auto* text = value ? std::get_if<std::string_view>(value) : nullptr;
  return text ? *text : fallback;
}
int64_t GgufMetadata::number(const std::string& key, int64_t fallback) const {
  const Value* value = find(key);
  if (!value) return fallback;
  if (const auto* u = std::get_if<uint64_t>(value)) return static_cast<int64_t>(*u);
  if (const auto* s = std::get_if<int64_t>(value)) return *s;
  return fallback;
}
bool GgufMetadata::flag(const std::string& key, bool fallback) const {
  const Value* value = find(key);
  const auto* flag = value ? std::get_if<bool>(value) : nullptr;
  return flag ? *flag : fallback;
}
const std::vector<std::string_view>* GgufMetadata::texts(const std::string& key) const {
  const Value* value = find(key);
  return value ? std::get_if<std::vector<std::string_view>>(value) : nullptr;
}
const std::vector<int64_t>* GgufMetadata::numbers(const std::string& key) const {
  const Value* value = find(key);
  return value ? std::get_if<std::vector<int64_t>>(value) : nullptr;
}
const std::vector<double>* GgufMetadata::reals(const std::string& key) const {
  const Value* value = find(key);
  return value ? std::get_if<std::vector<double>>(value) : nullptr;
}

}  // namespace makar
