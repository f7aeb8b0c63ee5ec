// Maps tokens to ids and ids to tokens.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace makar {

constexpr uint32_t kNoId = UINT32_MAX;

class Vocabulary {
 public:
  static constexpr uint32_t kMaxId = (1u << 24) - 1;  // bounds the memory for an untrusted file

  // Adds a token; adding a token again changes its id, reusing an id changes its token.
  void add(std::string_view token, uint32_t id);
  uint32_t find(std::string_view token) const;  // kNoId when absent
  // The same for many tokens, several times faster: their slots are prefetched together.
  void find_all(std::span<const std::string_view> tokens, uint32_t* ids) const;
  std::optional<std::string_view> token(uint32_t id) const;
  uint32_t size() const { return static_cast<uint32_t>(by_id_.size()); }  // one more than the largest id
  size_t count() const { return entries_.size(); }

  // {"token": id, ...}
  static Result<Vocabulary> from_json(const Json& json);
  Json to_json() const;  // in id order

 private:
  struct Entry {
    uint32_t begin, size, id;
  };
  std::string_view view(const Entry& e) const { return std::string_view(bytes_).substr(e.begin, e.size); }
  void grow();

  std::string bytes_;
  std::vector<Entry> entries_;
  struct Slot {
    uint32_t entry = 0;  // index into entries_ + 1; 0 is free
    uint32_t hash = 0;
  };
  // The slot of the token, or the free slot for it.
  size_t find_slot(std::string_view token, uint64_t hash) const;

  std::vector<Slot> slots_;      // size is a power of two
  std::vector<uint32_t> by_id_;  // index into entries_ + 1
};

}  // namespace makar
