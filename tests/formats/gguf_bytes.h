// Builds the bytes of GGUF files, valid or broken, for the tests.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/gguf.h"

namespace makar {

template <class T>
std::string le(T v) {
  return std::string(reinterpret_cast<const char*>(&v), sizeof v);
}
inline std::string gguf_string(const std::string& s) { return le<uint64_t>(s.size()) + s; }
inline std::string gguf_pair(const std::string& key, uint32_t kind, const std::string& payload) {
  return gguf_string(key) + le(kind) + payload;
}
inline std::string gguf_info(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                             uint64_t offset) {
  std::string out = gguf_string(name) + le(static_cast<uint32_t>(dims.size()));
  for (const uint64_t d : dims) out += le(d);
  return out + le(type) + le(offset);
}

// A file in pieces; a test changes one and joins them.
struct GgufParts {
  std::string magic = "GGUF", version = le<uint32_t>(3);
  std::vector<std::string> pairs = {gguf_pair("general.architecture", 8, gguf_string("llama")),
                                    gguf_pair("llama.block_count", 4, le<uint32_t>(1))};
  std::vector<std::string> infos = {gguf_info("a", {32, 2}, 8, 0), gguf_info("b", {3}, 0, 96)};
  std::string data = std::string(108, 'x');
  int64_t tensor_count = -1, pair_count = -1;  // -1: as many as there are
  size_t alignment = 32;

  std::string join() const {
    std::string out = magic + version;
    out += le<uint64_t>(tensor_count < 0 ? infos.size() : static_cast<uint64_t>(tensor_count));
    out += le<uint64_t>(pair_count < 0 ? pairs.size() : static_cast<uint64_t>(pair_count));
    for (const auto& p : pairs) out += p;
    for (const auto& i : infos) out += i;
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }
};

inline Result<Gguf::File> parse_gguf(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return Gguf::parse(std::as_bytes(std::span(owner->data(), owner->size())), owner, "x.gguf");
}

}  // namespace makar
