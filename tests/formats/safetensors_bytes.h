// Builds the bytes of safetensors files, valid or broken, for the tests.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "formats/safetensors.h"

namespace makar {

inline std::string safetensors_bytes(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  out += header;
  for (size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i);
  return out;
}

inline std::string tensor_json(const std::string& name, const std::string& dtype, const std::string& shape,
                               size_t begin, size_t end) {
  return fmt::format("\"{}\":{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}", name, dtype, shape,
                     begin, end);
}

inline Result<Safetensors::File> parse_bytes(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return Safetensors::parse(std::as_bytes(std::span(owner->data(), owner->size())), owner, "x.safetensors");
}

}  // namespace makar
