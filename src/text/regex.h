// Patterns of tokenizer files, run by PCRE2 with JIT and with limits. The files use Oniguruma's Ruby syntax;
// differences are translated or refused with an error.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace makar {

class Regex {
 public:
  static Result<Regex> compile(const std::string& pattern, bool literal = false);

  // Appends every match (including empty ones), left to right. kLimit when the pattern needs too many steps
  // or too much memory on this text.
  Status find_all(std::string_view text, std::vector<Span>& matches) const;
  // The same with PCRE2 even where a hand-written scanner exists.
  Status match_all(std::string_view text, std::vector<Span>& matches) const;
  // Every match with its groups: [match][0] is the whole match, [match][k] group k, empty if it did not
  // match. Stops after `limit` matches.
  Status find_groups(std::string_view text, std::vector<std::vector<Span>>& matches, size_t limit) const;
  const std::string& pattern() const { return pattern_; }

 private:
  struct Code;
  // Calls f(offsets, groups) for each match until it returns false.
  Status each_match(std::string_view text, uint32_t groups,
                    const std::function<bool(const size_t*, uint32_t)>& f) const;
  std::shared_ptr<const Code> code_;
  std::string pattern_;
};

// From {"pattern": {"Regex": ...}} or {"pattern": {"String": ...}}.
Result<Regex> pattern_field(const Json& json);

// The pattern in PCRE2's syntax.
Result<std::string> translate_pattern(const std::string& pattern);

}  // namespace makar
