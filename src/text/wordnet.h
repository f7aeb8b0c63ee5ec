// Synonyms from a WordNet 3.0 database (Fellbaum, 1998), read in its own format: index.noun, data.noun,
// noun.exc and the same for verb, adj and adv. Debian's package wordnet-base installs it.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace makar {

// The three files of one part of speech, as bytes. The files are not trusted: data that does not
// fit the format is ignored.
struct WordNetFiles {
  std::string_view index, data, exceptions;
};

class WordNet {
 public:
  static constexpr const char* kFolder = "/usr/share/wordnet";
  static constexpr size_t kMaxWordBytes = 1000;  // longer words have no entry

  // Maps the files. kNotFound with the cure if the database is not installed.
  static Result<std::shared_ptr<const WordNet>> open(const std::string& folder = kFolder);
  // Over bytes in memory: noun, verb, adj, adv.
  explicit WordNet(const std::array<WordNetFiles, 4>& files) : parts_(files) {}

  // Single words of all synonym sets of a lower-case word or of its base forms (dogs, ran, better), in the
  // order of the files, without duplicates.
  std::vector<std::string> synonyms(const std::string& word) const;

 private:
  WordNet() = default;
  std::array<WordNetFiles, 4> parts_;
  std::vector<std::shared_ptr<const MappedFile>> mapped_files_;
};

}  // namespace makar
