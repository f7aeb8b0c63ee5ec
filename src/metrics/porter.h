// Porter's stemmer (1980) with the extensions of nltk, which rouge_score and nltk's METEOR use.
#pragma once
#include <string>

namespace makar {

// The stem of a lower-case word.
std::string porter_stem(const std::string& word);

}  // namespace makar
