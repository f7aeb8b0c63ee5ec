#include "formats/gguf_value.h"

#include <algorithm>
#include <cstring>

#include "base/quote.h"

namespace makar {
namespace {

struct KindRow {
  const char* name;
  size_t bytes;
};
constexpr KindRow kKinds[] = {{"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},    {"u32", 4},
                              {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 0}, {"array", 0},
                              {"u64", 8}, {"i64", 8}, {"f64", 8}};

template <class T>
T read(const char* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
template <class T>
void append(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

std::optional<int64_t> integer_at(GgufKind kind, const char* at) {
  switch (kind) {
    case GgufKind::kU8:
      return read<uint8_t>(at);
    case GgufKind::kI8:
      return read<int8_t>(at);
    case GgufKind::kU16:
      return read<uint16_t>(at);
    case GgufKind::kI16:
      return read<int16_t>(at);
    case GgufKind::kU32:
      return read<uint32_t>(at);
    case GgufKind::kI32:
      return read<int32_t>(at);
    case GgufKind::kI64:
      return read<int64_t>(at);
    case GgufKind::kU64: {
      const auto v = read<uint64_t>(at);
      if (v > INT64_MAX) return std::nullopt;
      return static_cast<int64_t>(v);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(GgufKind kind, const char* at) {
  if (kind == GgufKind::kF32) return read<float>(at);
  if (kind == GgufKind::kF64) return read<double>(at);
  if (const auto i = integer_at(kind, at)) return static_cast<double>(*i);
  return std::nullopt;
}

constexpr size_t kArrayHeadBytes = 12;  // element kind and count

std::string array_head(GgufKind element, size_t count) {
  std::string out;
  append(out, static_cast<uint32_t>(element));
  append(out, static_cast<uint64_t>(count));
  return out;
}

template <class T>
GgufValue plain_array(GgufKind element, std::span<const T> values) {
  std::string out = array_head(element, values.size());
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return {GgufKind::kArray, std::move(out)};
}

template <class T>
GgufValue scalar(GgufKind kind, T v) {
  std::string out;
  append(out, v);
  return {kind, std::move(out)};
}

// Calls one(at) for every element of an array of numbers or booleans, until it returns false.
template <class F>
bool each_plain(const GgufValue& value, F&& one) {
  const size_t size = size_of(value.element());
  for (uint64_t i = 0; i < value.count(); ++i)
    if (!one(value.payload().data() + kArrayHeadBytes + i * size)) return false;
  return true;
}

}  // namespace

const char* name(GgufKind kind) { return kKinds[static_cast<size_t>(kind)].name; }
size_t size_of(GgufKind kind) { return kKinds[static_cast<size_t>(kind)].bytes; }
bool is_known(uint32_t kind) { return kind < std::size(kKinds); }

GgufValue GgufValue::u32(uint32_t v) { return scalar(GgufKind::kU32, v); }
GgufValue GgufValue::u64(uint64_t v) { return scalar(GgufKind::kU64, v); }
GgufValue GgufValue::f32(float v) { return scalar(GgufKind::kF32, v); }
GgufValue GgufValue::flag(bool v) { return scalar(GgufKind::kBool, static_cast<uint8_t>(v)); }
GgufValue GgufValue::text(std::string_view v) {
  std::string out;
  append(out, static_cast<uint64_t>(v.size()));
  return {GgufKind::kString, std::move(out.append(v))};
}
GgufValue GgufValue::texts(std::span<const std::string> v) {
  std::string out = array_head(GgufKind::kString, v.size());
  for (const std::string& s : v) append(out, static_cast<uint64_t>(s.size())), out += s;
  return {GgufKind::kArray, std::move(out)};
}
GgufValue GgufValue::i32s(std::span<const int32_t> v) { return plain_array(GgufKind::kI32, v); }
GgufValue GgufValue::bytes(std::string_view v) {
  return plain_array(GgufKind::kU8, std::span<const char>(v.data(), v.size()));
}
GgufValue GgufValue::f32s(std::span<const float> v) { return plain_array(GgufKind::kF32, v); }

GgufKind GgufValue::element() const {
  return kind_ == GgufKind::kArray ? static_cast<GgufKind>(read<uint32_t>(payload_.data())) : kind_;
}
uint64_t GgufValue::count() const {
  return kind_ == GgufKind::kArray ? read<uint64_t>(payload_.data() + 4) : 1;
}

std::optional<int64_t> GgufValue::integer() const { return integer_at(kind_, payload_.data()); }
std::optional<double> GgufValue::number() const { return number_at(kind_, payload_.data()); }
std::optional<bool> GgufValue::flag() const {
  if (kind_ != GgufKind::kBool) return std::nullopt;
  return payload_[0] != 0;
}
std::optional<std::string_view> GgufValue::text() const {
  if (kind_ != GgufKind::kString) return std::nullopt;
  return std::string_view(payload_).substr(8);
}

std::optional<std::vector<int64_t>> GgufValue::integers() const {
  if (kind_ != GgufKind::kArray || size_of(element()) == 0) return std::nullopt;
  std::vector<int64_t> out;
  out.reserve(count());
  const GgufKind kind = element() == GgufKind::kBool ? GgufKind::kU8 : element();
  const bool all_valid = each_plain(*this, [&](const char* at) {
    const auto v = integer_at(kind, at);
    if (v) out.push_back(*v);
    return v.has_value();
  });
  if (!all_valid) return std::nullopt;
  return out;
}

std::optional<std::vector<double>> GgufValue::numbers() const {
  if (kind_ != GgufKind::kArray || size_of(element()) == 0 || element() == GgufKind::kBool)
    return std::nullopt;
  std::vector<double> out;
  out.reserve(count());
  const bool all_valid = each_plain(*this, [&](const char* at) {
    const auto v = number_at(element(), at);
    if (v) out.push_back(*v);
    return v.has_value();
  });
  if (!all_valid) return std::nullopt;
  return out;
}

std::optional<std::vector<std::string_view>> GgufValue::texts() const {
  if (kind_ != GgufKind::kArray || element() != GgufKind::kString) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(count());
  size_t at = kArrayHeadBytes;
  for (uint64_t i = 0; i < count(); ++i) {
    const auto size = read<uint64_t>(payload_.data() + at);
    out.push_back(std::string_view(payload_).substr(at + 8, size));
    at += 8 + size;
  }
  return out;
}

std::string GgufValue::description() const {
  if (kind_ == GgufKind::kArray) return fmt::format("{} of {}", count(), makar::name(element()));
  if (const auto t = text()) return makar::quote(*t);
  if (const auto f = flag()) return *f ? "true" : "false";
  if (const auto i = integer()) return std::to_string(*i);
  if (const auto n = number()) return fmt::format("{}", *n);
  return "a number of more than 63 bits";
}

const GgufValue* GgufFields::find(std::string_view key) const {
  for (const auto& [k, v] : list_)
    if (k == key) return &v;
  return nullptr;
}

void GgufFields::set(const std::string& key, GgufValue value) {
  for (auto& [k, v] : list_)
    if (k == key) {
      v = std::move(value);
      return;
    }
  list_.emplace_back(key, std::move(value));
}

void GgufFields::erase(std::string_view key) {
  list_.erase(std::remove_if(list_.begin(), list_.end(), [&](const auto& pair) { return pair.first == key; }),
              list_.end());
}

std::optional<int64_t> GgufFields::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  return value ? value->integer() : std::nullopt;
}
std::optional<std::string> GgufFields::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value || !value->text()) return std::nullopt;
  return std::string(*value->text());
}

}  // namespace makar
