// Snowball's stemmers (libstemmer).
#pragma once
#include <memory>
#include <string>

#include "base/error.h"

namespace makar {

class Stemmer {
 public:
  // "english", "german", "porter" (the algorithm of 1980), ...
  static Result<Stemmer> open(const std::string& language, const std::string& place);
  std::string operator()(const std::string& word) const;

 private:
  std::shared_ptr<void> stemmer_;
};

}  // namespace makar
