// Word senses by the nearest contextual embedding: a word in a text has the sense of the labelled example
// whose vector is nearest. The vector is the mean of the last four layers over the tokens of the word.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "llm/language_model.h"

namespace makar {

// A word in a text, by bytes.
struct WordInText {
  std::string text;
  size_t begin = 0, end = 0;
};
// The first occurrence of `word` as a whole word, ignoring case. Fails if there is none.
Result<WordInText> find_word(const std::string& text, const std::string& word);

class WordEncoder {
 public:
  // Fails if the model reads no text. `layers`: how many of the last ones are averaged; all if there are
  // fewer.
  static Result<WordEncoder> make(const LanguageModel& language, Device& device, int64_t layers = 4);
  // A vector of length 1. Fails if the word is in the truncated part of a text that is too long.
  Result<std::vector<float>> operator()(const WordInText& word) const;

 private:
  WordEncoder(const LanguageModel& language, Device& device, int64_t layers)
      : language_(language), device_(device), layers_(layers) {}
  const LanguageModel& language_;
  Device& device_;
  int64_t layers_;
};

struct ScoredSense {
  std::string sense;
  double cosine = 0;
};

class SenseInventory {
 public:
  // `mean`: compares with the mean vector of a sense instead of its nearest example.
  explicit SenseInventory(bool mean) : mean_(mean) {}
  void add(const std::string& word, const std::string& sense, std::vector<float> vector);
  // Nearest first; equally near ones by name. Fails for a word without examples.
  Result<std::vector<ScoredSense>> rank(const std::string& word, const std::vector<float>& vector) const;
  // The sense with the most examples; of several, the first by name.
  Result<std::string> most_frequent(const std::string& word) const;
  size_t words() const { return words_.size(); }

 private:
  using Vectors = std::map<std::string, std::vector<std::vector<float>>>;
  Result<const Vectors*> senses(const std::string& word) const;
  std::map<std::string, Vectors> words_;  // word -> sense -> vectors
  bool mean_;
};

}  // namespace makar
