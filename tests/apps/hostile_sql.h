// Hostile SQL statements in disguise.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace makar {

// Each statement alone, and with comments, blanks, semicolons and other statements around it.
inline std::vector<std::string> disguised(const std::vector<std::string>& attacks) {
  const std::vector<std::pair<std::string, std::string>> around = {{"", ""},
                                                                   {"-- comment\n", ""},
                                                                   {"/* c */ ", " -- end"},
                                                                   {"\t\n  ", " ;"},
                                                                   {";;", ""},
                                                                   {"EXPLAIN ", "; SELECT 1"},
                                                                   {"SELECT 1; ", ""},
                                                                   {"SELECT 1; SELECT 2; ", ""},
                                                                   {"\xEF\xBB\xBF", ""},
                                                                   {"", "; SELECT * FROM t"}};
  std::vector<std::string> out;
  for (const std::string& attack : attacks)
    for (const auto& [before, after] : around) out.push_back(before + attack + after);
  return out;
}

}  // namespace makar
