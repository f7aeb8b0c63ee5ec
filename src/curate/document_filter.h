// The filters of curation for one document: fields, cleaners, language, quality, perplexity, toxicity,
// contamination, personal data.
#pragma once
#include <array>
#include <optional>

#include "curate/clean.h"
#include "curate/contamination.h"
#include "curate/curate.h"
#include "curate/near_duplicates.h"
#include "curate/pii.h"

namespace makar {

// A document and what the filters found. It is dropped if it has a reason.
struct FilteredDocument {
  std::string text, place;
  size_t bytes = 0;  // before cleaning
  std::string reason, detail, language;
  std::vector<const char*> changed;  // names of the cleaners that changed it
  std::array<uint64_t, kPiiKinds> pii = {};
  Signature signature;
  uint64_t hash[2] = {};
  uint32_t source = 0;
  std::string other_fields;  // of the record as JSON, if they are kept
  std::vector<uint64_t> groups;
  double perplexity = -1, toxicity = -1;  // -1: not computed

  bool drop(std::string drop_reason, std::string drop_detail) {
    return reason = std::move(drop_reason), detail = std::move(drop_detail), true;
  }
};

class DocumentFilter {
 public:
  // Reads the evaluation data. The options must outlive this object.
  static Result<DocumentFilter> create(const CurateOptions& options);
  // Drops the document if a field of its record is below the minimum.
  void check_fields(const Json& record, FilteredDocument& d) const;
  // Cleans the document, drops it under the first rule that applies, removes personal data, and computes the
  // hashes for deduplication.
  void filter(FilteredDocument& d) const;

 private:
  explicit DocumentFilter(const CurateOptions& options);
  // Each returns whether it dropped the document.
  bool language(FilteredDocument& d) const;
  bool quality(FilteredDocument& d) const;
  bool perplexity(FilteredDocument& d) const;
  bool toxic(FilteredDocument& d) const;
  bool contaminated(FilteredDocument& d) const;

  const CurateOptions& o_;
  std::vector<const Cleaner*> cleaners_;
  std::optional<Contamination> contamination_;
};

}  // namespace makar
