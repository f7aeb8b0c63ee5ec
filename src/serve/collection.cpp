#include "serve/collection.h"

#include <algorithm>

#include "retrieval/index_stamp.h"

namespace makar {
Status ServedCollection::refresh() {
  MAKAR_TRY(std::string stamp, index_stamp(path_));
  if (searcher_ && stamp == stamp_) return Done{};
  searcher_.reset();  // before opening: the old and the new one may not both fit in memory
  MAKAR_TRY(searcher_, open_());
  stamp_ = std::move(stamp);
  return Done{};
}

Result<std::vector<SearchHit>> ServedCollection::find(const std::string& query) {
  const std::lock_guard lock(mutex_);
  MAKAR_RETURN_IF_ERROR(refresh());
  MAKAR_TRY(auto hits, searcher_->search(query));
  std::erase_if(hits, [&](const SearchHit& hit) { return hit.relevance < options_.min_relevance; });
  return hits;
}

size_t ServedCollection::terms(const std::string& text) {
  const std::lock_guard lock(mutex_);
  return searcher_ ? searcher_->analyzer()(text).size() : 0;
}

Json ServedCollection::grounding(const std::string& answer, const std::vector<SearchHit>& sources) {
  const std::lock_guard lock(mutex_);
  if (!searcher_) return nullptr;  // the index could not be opened again
  const auto sentences = check_grounding(answer, sources, searcher_->analyzer(), options_.grounded);
  return {{"groundedness", groundedness(sentences)}, {"sentences", sentences_json(sentences)}};
}

}  // namespace makar
