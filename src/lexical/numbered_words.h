// Words and their numbers, in the order in which they were added.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/hash.h"

namespace makar {

class NumberedWords {
 public:
  uint32_t add(std::string_view word);
  std::optional<uint32_t> find(std::string_view word) const;
  const std::string& word(uint32_t id) const { return words_[id]; }
  const std::vector<std::string>& words() const { return words_; }
  size_t size() const { return words_.size(); }
  bool empty() const { return words_.empty(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return hash_bytes(word); }
  };
  std::vector<std::string> words_;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace makar
