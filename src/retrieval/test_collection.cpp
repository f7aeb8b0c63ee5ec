#include "retrieval/test_collection.h"

#include <unordered_map>
#include <unordered_set>

#include "base/file.h"
#include "data/trec.h"
#include "retrieval/load/records.h"

namespace makar {

Result<Qrels> read_qrels(const std::string& path) {
  MAKAR_TRY(auto stream, ByteStream::open(path));
  MAKAR_TRY(const auto judged, read_judgements(LineReader(std::move(stream))));
  Qrels out;
  std::unordered_map<std::string, size_t> index;
  for (const ScoredDocument& d : judged) {
    const auto [found, added] = index.emplace(d.query, out.size());
    if (added) out.push_back({d.query, {}});
    out[found->second].second[d.document] = d.score;
  }
  if (out.empty()) return error_at(path, "has no judgements");
  return out;
}

Result<TestCollection> read_test_collection(const std::string& folder, const std::string& split) {
  TestCollection out;
  const bool beir = is_file(folder + "/queries.jsonl"), cranfield = is_file(folder + "/cran.qry");
  if (!beir && !cranfield)
    return error_of(
        Error::Kind::kNotFound, folder,
        "is not a test collection: expected queries.jsonl and qrels/{}.tsv (BEIR), or cran.qry and cranqrel",
        split);
  MAKAR_TRY(out.judgements, read_qrels(folder + (beir ? "/qrels/" + split + ".tsv" : "/cranqrel")));
  std::unordered_set<std::string> judged;
  for (const auto& [query, documents] : out.judgements) judged.insert(query);
  BadRecords bad;
  size_t number = 0;
  MAKAR_RETURN_IF_ERROR(load_file(
      folder + (beir ? "/queries.jsonl" : "/cran.qry"), {},
      [&](SourceDocument query) -> Status {
        ++number;
        const std::string id = beir ? query.name : std::to_string(number);
        if (judged.contains(id)) out.queries.emplace_back(id, query.text);
        return Done{};
      },
      bad));
  if (bad.count > 0)
    return error_at(folder, "{} queries cannot be read: {}", bad.count, bad.reported.front());
  if (out.queries.empty()) return error_at(folder, "no query has judgements");
  return out;
}

}  // namespace makar
