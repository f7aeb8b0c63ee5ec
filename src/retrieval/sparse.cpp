#include "retrieval/sparse.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"

namespace makar {
namespace {

constexpr std::pair<const char*, SparseForm> kForms[] = {{"bm25", SparseForm::kBm25},
                                                         {"bm25-robertson", SparseForm::kBm25Robertson},
                                                         {"tfidf", SparseForm::kTfIdf},
                                                         {"count", SparseForm::kCount}};

}  // namespace

const char* name(SparseForm form) {
  for (const auto& [word, known] : kForms)
    if (known == form) return word;
  return "";
}

Result<SparseForm> parse_sparse_form(const std::string& text, const std::string& place) {
  std::vector<std::string> known;
  for (const auto& [word, form] : kForms) {
    if (word == text) return form;
    known.emplace_back(word);
  }
  return error_at(place, "expected bm25, bm25-robertson, tfidf or count, got '{}'{}", text,
                  did_you_mean(text, known));
}

Result<ChunkTable> ChunkTable::open(const IndexStore& store, const CollectionInfo& collection) {
  ChunkTable out;
  MAKAR_RETURN_IF_ERROR(store.each_chunk(collection, [&](int64_t chunk, int64_t document, int64_t) {
    out.ids.push_back(chunk);
    out.documents.push_back(document);
  }));
  if (out.ids.size() > UINT32_MAX)
    return error_of(Error::Kind::kLimit, store.path(), "collection '{}' has {} chunks; the limit is {}",
                    collection.name, out.ids.size(), UINT32_MAX);
  return out;
}

size_t ChunkTable::slot(int64_t id) const {
  const auto found = std::lower_bound(ids.begin(), ids.end(), id);
  return found != ids.end() && *found == id ? static_cast<size_t>(found - ids.begin()) : ids.size();
}

std::vector<uint8_t> ChunkTable::chunks_of(const std::vector<int64_t>& sorted_documents) const {
  std::vector<uint8_t> out(ids.size(), 0);
  for (size_t i = 0; i < ids.size(); ++i)
    out[i] = std::binary_search(sorted_documents.begin(), sorted_documents.end(), documents[i]) ? 1 : 0;
  return out;
}

double sparse_weight(const SparseOptions& o, double n, double mean, double df, double tf, double length) {
  switch (o.form) {
    case SparseForm::kTfIdf:
      return tf / length * std::log(n / df);
    case SparseForm::kCount:
      return tf;
    default:
      break;
  }
  const double odds = (n - df + 0.5) / (df + 0.5);
  const double idf = o.form == SparseForm::kBm25 ? std::log(1 + odds) : std::log(odds);
  return idf * tf / (tf + o.k1 * (1 - o.b + o.b * length / mean));
}

SparseIndex::SparseIndex(const IndexStore& store, const CollectionInfo& collection, const ChunkTable& table,
                         const SparseOptions& options)
    : store_(store),
      collection_(collection),
      table_(table),
      options_(options),
      scores_(table.ids.size(), 0.0),
      touched_(table.ids.size(), 0) {}

Result<const SparseIndex::List*> SparseIndex::list(const std::string& term) {
  if (const auto found = lists_.find(term); found != lists_.end()) return &found->second;
  MAKAR_TRY(const auto postings, store_.postings(collection_, term));
  List out;
  out.slots.reserve(postings.size()), out.weights.reserve(postings.size());
  const auto n = static_cast<double>(collection_.chunks), df = static_cast<double>(postings.size());
  const double mean = n > 0 ? static_cast<double>(collection_.terms) / n : 1;
  for (const Posting& p : postings) {
    const size_t slot = table_.slot(p.chunk);
    if (slot == table_.ids.size())
      return error_at(store_.path(),
                      "the postings of a term name a chunk that does not exist; build the index again");
    out.slots.push_back(static_cast<uint32_t>(slot));
    out.weights.push_back(sparse_weight(options_, n, mean, df, p.count, p.length));
  }
  return &(lists_[term] = std::move(out));
}

Result<std::vector<RankedChunk>> SparseIndex::search(const std::vector<std::string>& terms, size_t k,
                                                     const std::vector<uint8_t>* allowed) {
  std::vector<std::pair<const List*, double>> lists;
  std::unordered_map<std::string, size_t> list_of_term;
  for (const std::string& term : terms) {
    const auto [found, added] = list_of_term.emplace(term, lists.size());
    if (!added) {
      lists[found->second].second += 1;
      continue;
    }
    MAKAR_TRY(const List* const one, list(term));
    lists.emplace_back(one, 1.0);
  }
  std::vector<uint32_t> matched;
  for (const auto& [one, times] : lists) {
    const uint32_t* slots = one->slots.data();
    const double* weights = one->weights.data();
    for (size_t i = 0; i < one->slots.size(); ++i) {
      const uint32_t slot = slots[i];
      if (!touched_[slot]) {
        touched_[slot] = 1;
        matched.push_back(slot);
      }
      scores_[slot] += times * weights[i];
    }
  }
  std::vector<RankedChunk> best;
  best.reserve(std::min(k, matched.size()) + 1);
  for (const uint32_t slot : matched) {
    const RankedChunk ranked{slot, scores_[slot]};
    scores_[slot] = 0, touched_[slot] = 0;
    if (k == 0 || (allowed && !(*allowed)[slot])) continue;
    add_to_best(best, ranked, k);
  }
  std::sort(best.begin(), best.end(), ranks_before);
  return best;
}

}  // namespace makar
