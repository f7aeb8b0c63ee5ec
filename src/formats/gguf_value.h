// One metadata value of a GGUF file: a number, a boolean, a string or an array, stored in the file's encoding
// so that it is written back byte for byte.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace makar {

enum class GgufKind : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

const char* name(GgufKind kind);  // "u32", "string"
size_t size_of(GgufKind kind);    // bytes of a number or boolean; 0 for strings and arrays
bool is_known(uint32_t kind);

class GgufValue {
 public:
  static GgufValue u32(uint32_t v);
  static GgufValue u64(uint64_t v);
  static GgufValue f32(float v);
  static GgufValue flag(bool v);
  static GgufValue text(std::string_view v);
  static GgufValue texts(std::span<const std::string> v);
  static GgufValue i32s(std::span<const int32_t> v);
  static GgufValue bytes(std::string_view v);  // an array of u8
  static GgufValue f32s(std::span<const float> v);
  // The payload in the file's encoding; the reader has validated it.
  GgufValue(GgufKind kind, std::string payload) : kind_(kind), payload_(std::move(payload)) {}

  GgufKind kind() const { return kind_; }
  GgufKind element() const;  // of an array
  uint64_t count() const;    // of an array
  const std::string& payload() const { return payload_; }

  // nullopt when the value is of another kind; integers of any width count as one kind.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;  // also accepts integers
  std::optional<bool> flag() const;
  std::optional<std::string_view> text() const;
  std::optional<std::vector<int64_t>> integers() const;  // also accepts booleans
  std::optional<std::vector<double>> numbers() const;    // also accepts integers
  std::optional<std::vector<std::string_view>> texts() const;
  // "42", "'llama'", "32000 of string": for messages and listings.
  std::string description() const;

 private:
  GgufKind kind_;
  std::string payload_;
};

// Keys and values in file order; keys are unique.
class GgufFields {
 public:
  using List = std::vector<std::pair<std::string, GgufValue>>;
  GgufFields() = default;
  explicit GgufFields(List list) : list_(std::move(list)) {}
  const List& list() const { return list_; }
  const GgufValue* find(std::string_view key) const;
  // Replaces the value of a key, or adds the key at the end.
  void set(const std::string& key, GgufValue value);
  void erase(std::string_view key);

  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;

 private:
  List list_;
};

}  // namespace makar
