// A text split into words and the text between them, so that words can be changed and the rest kept.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace makar {

struct WordsOfText {
  std::vector<std::string> words;
  std::vector<std::string> between;  // before each word, and after the last: one more than words

  // Words are letters, digits, apostrophes and hyphens between letters, and bytes above 127.
  static WordsOfText split(std::string_view text);
  std::string join() const;
  // An inserted word is separated by a blank. The words around a removed word are separated by the text that
  // preceded it.
  void insert(size_t at, std::string word);
  void remove(size_t at);
};

bool is_capitalized(std::string_view word);  // upper-case first letter, no other upper case
std::string capitalized(std::string word);
std::string lowered_ascii(std::string word);  // ASCII letters only
// `word` in the case of `like`: Cat for The, CAT for THE.
std::string in_case_of(std::string word, std::string_view like);

// Sentences with their final punctuation; a sentence begins after ". ", "! " or "? " with an upper-case
// letter, a digit or a quotation mark.
std::vector<std::string> sentences_of(std::string_view text);

}  // namespace makar
