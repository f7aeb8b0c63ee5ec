// Any bytes as a word and, after a line break, a text: the range of the word inside the text, or an error.
#include <string>

#include "llm/senses.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(llm_senses) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const size_t line = all.find('\n');
  if (line == std::string::npos) return 0;
  const std::string word = all.substr(0, line), text = all.substr(line + 1);
  const auto found = find_word(text, word);
  if (!found.ok()) return 0;
  check(found->begin < found->end && found->end <= text.size() && found->end - found->begin == word.size(),
        "the range is in the text");
  return 0;
}
