// Lines of datasets, split into words.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/record_reader.h"

namespace makar {

struct WordOptions {
  // "space": words are separated by white space, as in KenLM, word2vec and fastText.
  // "words": also splits punctuation from words.
  std::string split = "space";
  bool lower = false;
};
Status check(const WordOptions& options);

// Splits text into words. A view is valid until the next call of split().
class WordSplitter {
 public:
  explicit WordSplitter(WordOptions options)
      : punctuation_(options.split == "words"), lower_(options.lower) {}
  const std::vector<std::string_view>& split(std::string_view text);

 private:
  void split_at_spaces(std::string_view text);
  void split_at_punctuation(std::string_view text);
  bool punctuation_, lower_;
  std::string lowered_;
  std::vector<std::string_view> words_;
};

// The text of a record: its text field, or all of its strings, one per line.
std::string record_text(const Json& record);

// Calls `use` for each line of the texts of datasets.
Status each_line(const std::vector<DataPath>& paths, const std::function<Status(std::string_view)>& use);

}  // namespace makar
