#include "retrieval/searcher.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace makar {

Result<SearchMode> parse_search_mode(const std::string& name, const std::string& place) {
  if (name == "sparse") return SearchMode::kSparse;
  if (name == "dense") return SearchMode::kDense;
  if (name == "hybrid") return SearchMode::kHybrid;
  return error_at(place, "expected sparse, dense or hybrid, got '{}'", name);
}

Result<Fusion> parse_fusion(const std::string& name, const std::string& place) {
  if (name == "rrf") return Fusion::kReciprocalRank;
  if (name == "weighted") return Fusion::kWeighted;
  return error_at(place, "expected rrf or weighted, got '{}'", name);
}

std::vector<RankedChunk> fuse_ranks(const std::vector<RankedChunk>& a, const std::vector<RankedChunk>& b,
                                    double rrf_k) {
  std::map<uint32_t, double> scores;
  for (const auto* ranked : {&a, &b})
    for (size_t i = 0; i < ranked->size(); ++i)
      scores[(*ranked)[i].slot] += 1 / (rrf_k + static_cast<double>(i) + 1);
  std::vector<RankedChunk> out;
  for (const auto& [slot, score] : scores) out.push_back({slot, score});
  std::sort(out.begin(), out.end(), ranks_before);
  return out;
}

std::vector<RankedChunk> fuse_scores(const std::vector<RankedChunk>& a, const std::vector<RankedChunk>& b,
                                     double weight) {
  std::map<uint32_t, double> scores;
  const auto add = [&](const std::vector<RankedChunk>& ranked, double share) {
    if (ranked.empty()) return;
    const double high = ranked.front().score, low = ranked.back().score;
    for (const RankedChunk& r : ranked)
      scores[r.slot] += share * (high > low ? (r.score - low) / (high - low) : 1);
  };
  add(a, 1 - weight);
  add(b, weight);
  std::vector<RankedChunk> out;
  for (const auto& [slot, score] : scores) out.push_back({slot, score});
  std::sort(out.begin(), out.end(), ranks_before);
  return out;
}

Result<std::unique_ptr<Searcher>> Searcher::open(const std::string& path, const std::string& name,
                                                 const SearchOptions& options, EmbedTexts embed) {
  MAKAR_TRY(IndexStore store, IndexStore::open(path, false));
  MAKAR_TRY(CollectionInfo collection, store.collection(name));
  MAKAR_TRY(Analyzer analyzer, Analyzer::open(collection.settings.analyzer));
  std::unique_ptr<Searcher> out(
      new Searcher(std::move(store), std::move(collection), options, std::move(analyzer)));
  // One transaction: the table, the postings and the vectors belong to the same state of the file.
  MAKAR_RETURN_IF_ERROR(out->store_.database().begin_reading());
  MAKAR_TRY(out->collection_, out->store_.collection(name));
  MAKAR_TRY(out->table_, ChunkTable::open(out->store_, out->collection_));
  out->embed_ = std::move(embed);
  out->sparse_ = std::make_unique<SparseIndex>(out->store_, out->collection_, out->table_, options.sparse);
  if (options.mode != SearchMode::kSparse) {
    if (out->collection_.settings.model.empty())
      return error_at(
          path,
          "collection '{}' has no vectors: it was built without a model; search it with --mode sparse, or "
          "add the documents to a new collection with -m MODEL",
          name);
    check(static_cast<bool>(out->embed_), "dense search needs a model");
    MAKAR_TRY(DenseIndex dense, DenseIndex::open(out->store_, out->collection_, out->table_, options.exact));
    out->dense_ = std::make_unique<DenseIndex>(std::move(dense));
  }
  if (!options.filter.empty()) {
    MAKAR_TRY(const auto documents, out->store_.matching_documents(out->collection_, options.filter));
    out->allowed_ = out->table_.chunks_of(documents);
  }
  return out;
}

Result<std::vector<RankedChunk>> Searcher::dense_rank(const std::string& query, size_t k) {
  MAKAR_TRY(auto vectors, embed_({collection_.settings.query_prefix + query}));
  check(vectors.size() == 1, "one vector per text");
  if (collection_.settings.similarity == Similarity::kCosine) normalize_vector(vectors[0]);
  MAKAR_TRY(auto ranked, dense_->search(vectors[0], k, allowed_ ? &*allowed_ : nullptr, options_.ef));
  cosines_.clear();
  if (collection_.settings.similarity == Similarity::kCosine)
    for (const RankedChunk& r : ranked) cosines_[r.slot] = r.score;
  return ranked;
}

Result<std::vector<RankedChunk>> Searcher::rank(const std::string& query, size_t k) {
  const std::vector<uint8_t>* allowed = allowed_ ? &*allowed_ : nullptr;
  if (options_.mode == SearchMode::kSparse) return sparse_->search(analyzer_(query), k, allowed);
  if (options_.mode == SearchMode::kDense) return dense_rank(query, k);
  const size_t candidates = std::max(k, options_.candidates);
  MAKAR_TRY(const auto sparse, sparse_->search(analyzer_(query), candidates, allowed));
  MAKAR_TRY(const auto dense, dense_rank(query, candidates));
  auto fused = options_.fusion == Fusion::kReciprocalRank ? fuse_ranks(sparse, dense, options_.rrf_k)
                                                          : fuse_scores(sparse, dense, options_.weight);
  if (fused.size() > k) fused.resize(k);
  return fused;
}

Status Searcher::add_coverage(const std::string& query, std::vector<SearchHit>& hits) const {
  std::map<std::string, double> rarity;
  double total = 0;
  for (const std::string& term : analyzer_(query)) {
    if (rarity.contains(term)) continue;
    MAKAR_TRY(const auto postings, store_.postings(collection_, term));
    const auto n = static_cast<double>(collection_.chunks), df = static_cast<double>(postings.size());
    total += rarity[term] = std::log(1 + (n - df + 0.5) / (df + 0.5));
  }
  for (SearchHit& hit : hits) {
    const auto terms = analyzer_(hit.chunk.title + "\n" + hit.chunk.heading + "\n" + hit.chunk.text);
    const std::unordered_set<std::string> chunk_terms(terms.begin(), terms.end());
    double found = 0;
    for (const auto& [term, weight] : rarity) found += chunk_terms.contains(term) ? weight : 0;
    hit.relevance = std::max(hit.relevance, total > 0 ? found / total : 0);
  }
  return Done{};
}

Result<std::vector<SearchHit>> Searcher::search(const std::string& query, size_t k) {
  cosines_.clear();
  MAKAR_TRY(const auto ranked, rank(query, k));
  std::vector<SearchHit> out;
  for (const RankedChunk& r : ranked) {
    MAKAR_TRY(StoredChunk found, chunk(r.slot));
    const auto cosine = cosines_.find(r.slot);
    out.push_back({r.score, cosine == cosines_.end() ? 0 : cosine->second, std::move(found)});
  }
  MAKAR_RETURN_IF_ERROR(add_coverage(query, out));
  return out;
}

Result<std::vector<SearchHit>> Searcher::search(const std::string& query) {
  return search(query, options_.k);
}

Result<std::vector<std::pair<std::string, double>>> Searcher::search_documents(const std::string& query,
                                                                               size_t k) {
  if (names_.empty()) {
    MAKAR_TRY(const auto rows, store_.database().rows("SELECT id, name FROM documents WHERE collection = ?",
                                                      {collection_.id}));
    for (const SqlRow& row : rows) names_[sql_number(row[0])] = sql_text(row[1]);
  }
  std::vector<std::pair<std::string, double>> out;
  // More chunks until there are k documents.
  for (size_t chunk_count = k * 2;; chunk_count *= 4) {
    MAKAR_TRY(const auto ranked, rank(query, chunk_count));
    out.clear();
    std::unordered_map<int64_t, bool> seen;
    for (const RankedChunk& r : ranked)
      if (out.size() < k && !seen[table_.documents[r.slot]]) {
        seen[table_.documents[r.slot]] = true;
        out.emplace_back(names_[table_.documents[r.slot]], r.score);
      }
    if (out.size() == k || ranked.size() < chunk_count) return out;
  }
}

}  // namespace makar
