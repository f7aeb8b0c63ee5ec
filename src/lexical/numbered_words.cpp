#include "lexical/numbered_words.h"

namespace makar {

uint32_t NumberedWords::add(std::string_view word) {
  if (const auto at = ids_.find(word); at != ids_.end()) return at->second;
  const auto id = static_cast<uint32_t>(words_.size());
  words_.emplace_back(word);
  ids_.emplace(words_.back(), id);
  return id;
}

std::optional<uint32_t> NumberedWords::find(std::string_view word) const {
  const auto at = ids_.find(word);
  return at == ids_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace makar
