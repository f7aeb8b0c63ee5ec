#include "retrieval/dense.h"

#include <algorithm>

namespace makar {
namespace {

// With fewer allowed chunks than kScanBelow, or fewer than one in kScanBelowOneIn of all, comparing each of
// them is faster than a search in the graph.
constexpr size_t kScanBelow = 1000, kScanBelowOneIn = 20;

}  // namespace

Result<DenseIndex> DenseIndex::open(const IndexStore& store, const CollectionInfo& c, const ChunkTable& table,
                                    bool exact) {
  DenseIndex out(VectorRows(c.vectors, c.settings.vector, c.settings.similarity), table);
  if (store.in_postgres()) {
    out.postgres_ = &store, out.collection_ = c, out.exact_ = exact;
    return out;
  }
  if (c.settings.hnsw && !exact) {
    MAKAR_TRY(out.graph_, VectorGraph::open(store, c));
    if ((out.graph_.graph() ? out.graph_.graph()->size() : 0) != table.ids.size())
      return error_at(store.path(), "not every chunk is in the graph; build the index again");
    return out;
  }
  MAKAR_RETURN_IF_ERROR(store.each_vector(c, [&](int64_t chunk, std::string_view bytes) -> Status {
    MAKAR_TRY(const auto vector, decode_vector(bytes, c.settings.vector, store.path()));
    const size_t at = out.rows_.size();
    if (static_cast<int64_t>(vector.size()) != c.vectors || at >= table.ids.size() || table.ids[at] != chunk)
      return error_at(store.path(), "the vectors do not belong to the chunks; build the index again");
    out.rows_.set(at, vector.data());
    return Done{};
  }));
  if (out.rows_.size() != table.ids.size())
    return error_at(store.path(), "{} of {} chunks have vectors; build the index again", out.rows_.size(),
                    table.ids.size());
  return out;
}

Result<std::vector<RankedChunk>> DenseIndex::search_postgres(const std::vector<float>& query, size_t k,
                                                             const std::vector<uint8_t>* allowed,
                                                             int64_t ef) const {
  std::vector<int64_t> chunks;
  if (allowed)
    for (size_t i = 0; i < allowed->size(); ++i)
      if ((*allowed)[i]) chunks.push_back(table_->ids[i]);
  const bool scan =
      allowed && (chunks.size() < kScanBelow || chunks.size() * kScanBelowOneIn < table_->ids.size());
  MAKAR_TRY(const auto found, postgres_->nearest(collection_, query, k, allowed ? &chunks : nullptr, ef,
                                                 exact_ || scan || !collection_.settings.hnsw));
  std::vector<RankedChunk> best;
  for (const auto& [chunk, score] : found) {
    const size_t slot = table_->slot(chunk);
    if (slot == table_->ids.size())
      return error_at(postgres_->path(), "a vector belongs to no chunk; build the index again");
    best.push_back({static_cast<uint32_t>(slot), score});
  }
  std::sort(best.begin(), best.end(), ranks_before);
  return best;
}

Result<std::vector<RankedChunk>> DenseIndex::search(const std::vector<float>& query, size_t k,
                                                    const std::vector<uint8_t>* allowed, int64_t ef) const {
  std::vector<RankedChunk> best;
  if (table_->ids.empty() || k == 0) return best;
  if (static_cast<int64_t>(query.size()) != rows_.width())
    return error_at("query",
                    "the model has vectors of {} values, the index has vectors of {}; use the index's model",
                    query.size(), rows_.width());
  if (postgres_) return search_postgres(query, k, allowed, ef);
  if (graph_.graph()) {
    std::function<bool(int64_t)> accepts;
    size_t count = table_->ids.size();
    if (allowed) {
      accepts = [&](int64_t chunk) { return (*allowed)[table_->slot(chunk)] != 0; };
      count = static_cast<size_t>(std::count(allowed->begin(), allowed->end(), 1));
    }
    const bool scan = count < kScanBelow || count * kScanBelowOneIn < table_->ids.size();
    const auto found = scan ? graph_.graph()->scan(query, k, accepts)
                            : graph_.graph()->search(query, k, static_cast<size_t>(ef), accepts);
    for (const Hnsw::Neighbour& n : found)
      best.push_back({static_cast<uint32_t>(table_->slot(n.label)), rows_.score(n.distance)});
    std::sort(best.begin(), best.end(), ranks_before);
    return best;
  }
  const auto prepared = rows_.query(query);
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (allowed && !(*allowed)[i]) continue;
    add_to_best(best, {static_cast<uint32_t>(i), rows_.score(rows_.distance(prepared, i))}, k);
  }
  std::sort(best.begin(), best.end(), ranks_before);
  return best;
}

}  // namespace makar
