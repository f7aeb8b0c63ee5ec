// Splitting texts into words: at white space as Python defines it, and by the tokenizers of sacrebleu.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace makar {

using WordList = std::vector<std::string>;

bool is_blank(char32_t code);                           // Python's str.isspace
WordList split_words(std::string_view text);            // Python's str.split()
std::string without_end_blanks(std::string_view text);  // Python's str.rstrip()
std::string lowered(std::string_view text);             // Python's str.lower(), but without final sigma
// The text in code points, without white space; one string per character.
WordList characters(std::string_view text);

enum class WordSplit {
  k13a,   // mteval-v13a: Western punctuation
  kIntl,  // mteval-v14 --international: punctuation and symbols of all scripts
  kChar,  // one word per character
  kZh,    // every Chinese character is a word, the rest as 13a
  kNone,  // the text is tokenized already
};
const char* name(WordSplit split);  // as in sacrebleu's signature
Result<WordSplit> parse_word_split(const std::string& name, const std::string& place);
WordList split_words(WordSplit split, std::string_view text);

// How tercom prepares a line for TER.
struct TerText {
  bool normalized = false, no_punctuation = false, asian = false, case_sensitive = false;
};
WordList split_words(const TerText& rules, std::string_view text);

}  // namespace makar
