// Runs and relevance judgements of retrieval: TREC's columns, and BEIR's tables with a header.
#pragma once
#include <string>
#include <vector>

#include "data/line_reader.h"

namespace makar {

struct ScoredDocument {
  std::string query, document;
  double score = 0;  // of a run; the relevance in judgements
};

// A run: "QUERY Q0 DOCUMENT RANK SCORE TAG" per line. Errors name file and line: missing columns, scores that
// are not finite numbers, a document twice for one query.
Result<std::vector<ScoredDocument>> read_trec_run(LineReader lines);
// Judgements: "QUERY 0 DOCUMENT RELEVANCE" per line, or BEIR's "query-id", "corpus-id", "score" with that
// header.
Result<std::vector<ScoredDocument>> read_judgements(LineReader lines);

}  // namespace makar
