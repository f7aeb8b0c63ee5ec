// Names of persons in texts, by rules and by a tagger, replaced by [NAME]. Rules: a title (Mr, Dr, ...) or a
// common first name, followed by capitalised words.
#pragma once
#include <string>
#include <string_view>

#include "lexical/hmm.h"

namespace makar {

struct NamesResult {
  std::string text;
  uint64_t found = 0;  // names that were replaced
};
// `tagger`: also replaces the words that it tags as persons (B-person, I-PER, ...); null: rules only.
NamesResult remove_names(std::string_view text, const HmmTagger* tagger);

}  // namespace makar
