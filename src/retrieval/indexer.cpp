#include "retrieval/indexer.h"

#include <algorithm>

#include "base/sha256.h"
#include "base/utf8.h"
#include "retrieval/vector_graph.h"

namespace makar {

std::string document_hash(const SourceDocument& d) {
  Sha256 hash;
  const std::string metadata = d.metadata.dump();
  hash.add(fmt::format("{}:{}:{}:{}:{}:{}:", d.index_title, d.title.size(), d.title, metadata.size(),
                       metadata, d.text.size()));
  hash.add(d.text);
  return hash.hex();
}

Indexer::Indexer(IndexStore& store, CollectionInfo collection, IndexerOptions options, Analyzer analyzer)
    : store_(store),
      collection_(std::move(collection)),
      options_(std::move(options)),
      analyzer_(std::move(analyzer)),
      width_(collection_.vectors) {}

Indexer::Indexer(Indexer&&) noexcept = default;
Indexer::~Indexer() = default;

Result<Indexer> Indexer::open(IndexStore& store, const CollectionInfo& collection, IndexerOptions options) {
  MAKAR_TRY(Analyzer analyzer, Analyzer::open(collection.settings.analyzer));
  Indexer out(store, collection, std::move(options), std::move(analyzer));
  if (collection.settings.chunk.kind == ChunkKind::kTokens) {
    MAKAR_TRY(out.tokenizer_, Tokenizer::load(collection.settings.tokenizer));
  }
  return out;
}

Result<PreparedDocument> Indexer::prepare(SourceDocument document) const {
  PreparedDocument out;
  out.hash = document_hash(document);
  MAKAR_TRY(const auto chunks,
            split_chunks(document.text, collection_.settings.chunk, tokenizer_ ? &*tokenizer_ : nullptr));
  for (const TextChunk& range : chunks) {
    const std::string_view text =
        std::string_view(document.text).substr(range.begin, range.end - range.begin);
    PreparedChunk chunk;
    chunk.range = range;
    chunk.key = chunk_key(document.name, range.begin, text);
    const auto terms = analyzer_(indexed_text(document.title, document.index_title, range.heading, text));
    chunk.length = static_cast<uint32_t>(terms.size());
    for (const std::string& term : terms) ++chunk.terms[term];
    out.chunks.push_back(std::move(chunk));
  }
  out.source = std::move(document);
  return out;
}

Status Indexer::add(SourceDocument document) {
  if (document.name.empty()) return error_at(store_.path(), "a document needs a name");
  document.name = to_valid_utf8(document.name);
  if (store_.in_postgres())  // its texts cannot hold zero bytes; a blank keeps the offsets
    for (std::string* text : {&document.name, &document.title, &document.text})
      std::replace(text->begin(), text->end(), '\0', ' ');
  const bool twice = std::any_of(pending_.begin(), pending_.end(),
                                 [&](const PreparedDocument& d) { return d.source.name == document.name; });
  if (twice) MAKAR_RETURN_IF_ERROR(commit());
  MAKAR_TRY(const auto stored, store_.document(collection_, document.name));
  if (stored && stored->hash == document_hash(document)) {
    ++counts_.unchanged;
    return Done{};
  }
  const std::string name = document.name;
  auto prepared = prepare(std::move(document));
  if (!prepared.ok()) return prepared.error().in(name);
  ++(stored ? counts_.updated : counts_.added);
  pending_bytes_ += prepared->source.text.size();
  counts_.chunks += static_cast<int64_t>(prepared->chunks.size());
  pending_.push_back(std::move(*prepared));
  if (static_cast<int64_t>(pending_.size()) >= options_.commit_documents ||
      pending_bytes_ >= options_.commit_bytes)
    return commit();
  return Done{};
}

Status Indexer::embed_pending() {
  if (collection_.settings.model.empty()) return Done{};
  check(static_cast<bool>(options_.embed), "a collection with vectors needs a model");
  std::vector<std::string> texts;
  for (const PreparedDocument& d : pending_)
    for (const PreparedChunk& chunk : d.chunks)
      texts.push_back(collection_.settings.passage_prefix +
                      indexed_text(d.source.title, d.source.index_title, chunk.range.heading,
                                   std::string_view(d.source.text)
                                       .substr(chunk.range.begin, chunk.range.end - chunk.range.begin)));
  MAKAR_TRY(auto vectors, options_.embed(texts));
  check(vectors.size() == texts.size(), "one vector per text");
  size_t at = 0;
  for (PreparedDocument& d : pending_)
    for (PreparedChunk& chunk : d.chunks) {
      chunk.vector = std::move(vectors[at++]);
      if (collection_.settings.similarity == Similarity::kCosine) normalize_vector(chunk.vector);
      const auto width = static_cast<int64_t>(chunk.vector.size());
      if (width_ == 0) width_ = width;
      if (width != width_)
        return error_at(collection_.settings.model,
                        "has vectors of {} values, the collection has vectors of {}; use the model that "
                        "built the collection",
                        width, width_);
    }
  return Done{};
}

Status Indexer::commit() {
  if (pending_.empty()) return Done{};
  MAKAR_RETURN_IF_ERROR(embed_pending());
  SqlTransaction transaction(store_.database());
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  MAKAR_RETURN_IF_ERROR(read_graph());
  MAKAR_TRY(const auto change, store_.add(collection_, pending_, analyzer_));
  if (graph_) MAKAR_RETURN_IF_ERROR(graph_->apply(store_, collection_, change));
  MAKAR_RETURN_IF_ERROR(transaction.commit());
  std::vector<std::string> names;
  for (const PreparedDocument& d : pending_) names.push_back(d.source.name);
  pending_.clear();
  pending_bytes_ = 0;
  if (options_.on_commit) options_.on_commit(names);
  return Done{};
}

Status Indexer::remove(const std::vector<std::string>& names) {
  MAKAR_RETURN_IF_ERROR(commit());
  SqlTransaction transaction(store_.database());
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  std::vector<int64_t> ids;
  for (const std::string& name : names) {
    MAKAR_TRY(const auto found, store_.document(collection_, name));
    if (!found)
      return error_of(Error::Kind::kNotFound, store_.path(),
                      "collection '{}' has no document '{}'; makar index ls {} --documents lists them",
                      collection_.name, name, store_.path());
    ids.push_back(found->id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  MAKAR_RETURN_IF_ERROR(read_graph());
  MAKAR_TRY(const auto change, store_.remove(collection_, ids, analyzer_));
  if (graph_) MAKAR_RETURN_IF_ERROR(graph_->apply(store_, collection_, change));
  MAKAR_RETURN_IF_ERROR(transaction.commit());
  counts_.removed += static_cast<int64_t>(ids.size());
  return Done{};
}

Status Indexer::read_graph() {
  if (!collection_.settings.hnsw || collection_.settings.model.empty() || store_.in_postgres()) return Done{};
  MAKAR_TRY(const auto rows, store_.database().rows("PRAGMA data_version"));
  if (graph_ && sql_number(rows[0][0]) == file_version_) return Done{};
  MAKAR_TRY(VectorGraph stored_graph, VectorGraph::open(store_, collection_));
  graph_ = std::make_unique<VectorGraph>(std::move(stored_graph));
  file_version_ = sql_number(rows[0][0]);
  return Done{};
}

}  // namespace makar
