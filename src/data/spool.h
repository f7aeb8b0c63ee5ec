// Lists larger than memory: written once in order, read by index. They are stored in unnamed files, which no
// other process can open, and which the system deletes when the process ends.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"

namespace makar {

class Spool {
 public:
  // Creates `folder` when the first item is added.
  explicit Spool(std::string folder);
  Status add(std::string_view bytes);
  Result<std::string> read(size_t at) const;
  size_t size() const;

 private:
  struct Files;
  std::shared_ptr<Files> files_;
};

// Packs the members listed in T::fields() (a tuple of pointers to members) into bytes, in that order:
// numbers, strings, and vectors of either.
namespace packing {

template <class V>
void put(const V& value, std::string& out) {
  if constexpr (std::is_trivially_copyable_v<V>) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(V));
  } else {
    put(value.size(), out);
    if constexpr (std::is_trivially_copyable_v<typename V::value_type>)
      out.append(reinterpret_cast<const char*>(value.data()), value.size() * sizeof(typename V::value_type));
    else
      for (const auto& item : value) put(item, out);
  }
}

inline void take_bytes(std::string_view& in, void* to, size_t size) {
  check(in.size() >= size, "an item of a spool is truncated");
  if (size > 0) std::memcpy(to, in.data(), size);
  in.remove_prefix(size);
}

template <class V>
void take(std::string_view& in, V& value) {
  if constexpr (std::is_trivially_copyable_v<V>) {
    take_bytes(in, &value, sizeof(V));
  } else {
    size_t count = 0;
    take(in, count);
    check(count <= in.size(), "an item of a spool is truncated");
    value.resize(count);
    if constexpr (std::is_trivially_copyable_v<typename V::value_type>)
      take_bytes(in, value.data(), count * sizeof(typename V::value_type));
    else
      for (auto& item : value) take(in, item);
  }
}

}  // namespace packing

template <class T>
class SpoolOf {
 public:
  explicit SpoolOf(std::string folder) : spool_(std::move(folder)) {}
  Status add(const T& item) {
    std::string bytes;
    std::apply([&](auto... field) { (packing::put(item.*field, bytes), ...); }, T::fields());
    return spool_.add(bytes);
  }
  Result<T> read(size_t at) const {
    MAKAR_TRY(const std::string bytes, spool_.read(at));
    T item;
    std::string_view rest = bytes;
    std::apply([&](auto... field) { (packing::take(rest, item.*field), ...); }, T::fields());
    return item;
  }
  size_t size() const { return spool_.size(); }
  bool empty() const { return size() == 0; }
  // Adds the bytes of all items to a hash.
  Status add_to(Sha256& sum) const {
    for (size_t i = 0; i < size(); ++i) {
      MAKAR_TRY(const std::string bytes, spool_.read(i));
      sum.add(bytes);
    }
    return Done{};
  }

 private:
  Spool spool_;
};

}  // namespace makar
