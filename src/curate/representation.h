// How often texts mention groups of people, before and after filtering, to find filters that drop the texts
// about one group more often than others. Groups are lists of words, so a count is only an indication.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace makar {

class Representation {
 public:
  // English words for genders, ages, religions, origins, orientations and disabilities.
  static Representation built_in();
  // Lines of a group, a tab and a word.
  static Result<Representation> read(const std::string& path);
  static Result<Representation> parse(std::string_view text, const std::string& place);

  const std::vector<std::string>& groups() const { return groups_; }
  // For each group, how many words of the text belong to it; case is ignored.
  std::vector<uint64_t> count(std::string_view text) const;

 private:
  void add(const std::string& group, const std::string& word);
  std::vector<std::string> groups_;
  std::unordered_map<std::string, std::vector<size_t>> words_;  // the groups of each word
};

}  // namespace makar
