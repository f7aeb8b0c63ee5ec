// Test collections with relevance judgements: BEIR folders and Cranfield.
#pragma once
#include <string>
#include <vector>

#include "metrics/ranking.h"

namespace makar {

// Relevance judgements of a file (TREC or BEIR), grouped by query.
Result<Qrels> read_qrels(const std::string& path);

struct TestCollection {
  std::vector<std::pair<std::string, std::string>> queries;  // id, text
  Qrels judgements;
};

// BEIR: queries.jsonl and qrels/SPLIT.tsv. Cranfield: cran.qry and cranqrel; its queries are numbered by
// their order. Queries without judgements are left out.
Result<TestCollection> read_test_collection(const std::string& folder, const std::string& split);

}  // namespace makar
