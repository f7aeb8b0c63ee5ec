// The metadata section of a GGUF file, written by hand.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace makar {

inline std::string number(uint64_t value, int size) {
  return {reinterpret_cast<const char*>(&value), static_cast<size_t>(size)};
}
inline std::string with_length(const std::string& text) { return number(text.size(), 8) + text; }
inline std::string text_entry(const std::string& key, const std::string& value) {
  return with_length(key) + number(8, 4) + with_length(value);
}
inline std::string list_entry(const std::string& key, const std::vector<std::string>& list) {
  std::string out = with_length(key) + number(9, 4) + number(8, 4) + number(list.size(), 8);
  for (const std::string& text : list) out += with_length(text);
  return out;
}
template <class T>
std::string numbers_entry(const std::string& key, int type, const std::vector<T>& list) {
  std::string out = with_length(key) + number(9, 4) + number(type, 4) + number(list.size(), 8);
  return out.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
}
inline std::string gguf(const std::vector<std::string>& entries) {
  std::string out = "GGUF" + number(3, 4) + number(0, 8) + number(entries.size(), 8);
  for (const std::string& entry : entries) out += entry;
  return out;
}

}  // namespace makar
