// Numbers for words, so that comparing two words takes one instruction.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace makar {

class WordIds {
 public:
  std::vector<uint32_t> of(const std::vector<std::string>& words) {
    std::vector<uint32_t> out;
    out.reserve(words.size());
    for (const std::string& word : words)
      out.push_back(ids_.emplace(word, static_cast<uint32_t>(ids_.size())).first->second);
    return out;
  }

 private:
  std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace makar
