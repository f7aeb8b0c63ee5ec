// Any bytes as the files of a WordNet database (index, data and exceptions, each after a byte with its
// length): words or nothing, no crash, no word with a blank.
#include "target.h"
#include "text/wordnet.h"

using namespace makar;

FUZZ_TARGET(text_wordnet) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto part = [&] {
    if (rest.empty()) return rest;
    const size_t length = std::min<size_t>(static_cast<unsigned char>(rest[0]) * 4, rest.size() - 1);
    const std::string_view out = rest.substr(1, length);
    rest.remove_prefix(1 + length);
    return out;
  };
  const WordNetFiles files{part(), part(), part()};
  const WordNet wordnet({files, files, files, files});
  for (const char* word : {"dog", "dogs", "ran", "ssssssss", "inginging", ""})
    for (const std::string& synonym : wordnet.synonyms(word))
      check(!synonym.empty() && synonym.find_first_of(" _") == std::string::npos,
            "a synonym is a single word");
  return 0;
}
