// Curation of datasets: cleaners, language, quality rules, perplexity, personal data, contamination,
// duplicates. Every document that is dropped is counted under its reason. The result does not depend on the
// number of threads.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "curate/language_id.h"
#include "curate/pii.h"
#include "curate/representation.h"
#include "data/record_reader.h"
#include "lexical/corpus.h"
#include "lexical/hmm.h"
#include "lexical/ngram_model.h"
#include "lexical/text_classifier.h"

namespace makar {

struct CurateOptions {
  std::vector<std::string> clean;      // names of cleaners, in order
  std::vector<std::string> languages;  // to keep, empty: all; needs `language_id`
  double min_language_score = 0.5;
  bool gopher = false, c4 = false;  // quality rules
  bool exact = false;               // drop exact duplicates
  double near = 0;                  // similarity of near-duplicates to drop; 0: off
  bool pii = false;                 // replace personal data
  bool names = false;               // replace names of persons
  const HmmTagger* name_tagger = nullptr;
  const TextClassifier* toxicity = nullptr;  // scores toxicity
  std::string toxic_label = "toxic";
  double max_toxicity = 0.5;  // documents whose highest score of a line is above it are dropped
  double max_perplexity = 0;  // of the n-gram model, per token; 0: perplexities are only counted
  int64_t min_words = 0;
  int64_t min_tokens = 0;  // needs `count_tokens`
  std::function<size_t(const std::string&)> count_tokens;
  // Minimum values of numeric fields such as votes or stars; records without the field are kept.
  std::vector<std::pair<std::string, double>> min_fields;
  bool keep_fields = false;  // write the other fields of a record too
  const Representation* groups = nullptr;
  // For each path: how often each of its documents is written on average; empty: once. After all filters.
  std::vector<double> weights;
  int64_t seed = 1;           // of the draws for weights
  int64_t contamination = 0;  // drop documents that share this many consecutive words with evaluation data
  std::string output;         // JSONL
  const LanguageId* language_id = nullptr;
  const NgramModel* ngrams = nullptr;
  WordOptions ngram_words;
  std::vector<DataPath> evaluation;
  std::function<void(const char* stage, uint64_t done, uint64_t bytes)> progress = [](const char*, uint64_t,
                                                                                      uint64_t) {};
};
Status check(const CurateOptions& options);

struct CurateReport {
  uint64_t documents = 0, bytes = 0, kept = 0, kept_bytes = 0, bad_records = 0;
  struct Drop {
    uint64_t documents = 0, bytes = 0;
    std::string example;  // place and detail of the first document
  };
  std::map<std::string, Drop> drops;  // by reason
  struct Source {
    std::string path;
    double weight = 1;
    uint64_t documents = 0, kept = 0, written = 0, bytes = 0;  // documents; and bytes that were written
  };
  std::vector<Source> sources;
  struct Group {
    uint64_t documents = 0, mentions = 0, kept_documents = 0, kept_mentions = 0;
  };
  std::vector<std::pair<std::string, Group>> groups;
  std::map<std::string, uint64_t> changed;  // documents that a cleaner changed
  std::array<uint64_t, kPiiKinds> pii = {};
  std::map<std::string, uint64_t> languages;      // documents by language; needs `language_id`
  std::map<int, uint64_t> lengths, kept_lengths;  // by power of two of bytes
  std::map<int, uint64_t> perplexities;           // by power of two; of documents that reach this filter
  std::map<int, uint64_t> toxicities;             // by tenth of the score
  Json json() const;
  std::string text() const;  // Markdown
};

Result<CurateReport> curate(const std::vector<DataPath>& paths, const CurateOptions& options,
                            ThreadPool& pool);

}  // namespace makar
