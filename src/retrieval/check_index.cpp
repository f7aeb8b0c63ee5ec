#include "retrieval/check_index.h"

#include "retrieval/indexer.h"

namespace makar {
namespace {

// Computes a collection from its texts again and compares the result with what is stored.
class CollectionCheck {
 public:
  CollectionCheck(const IndexStore& store, const CollectionInfo& c)
      : store_(store), c_(c), place_(store.path() + ": collection '" + c.name + "'") {}

  Status run(CheckedIndex& out) {
    MAKAR_TRY(analyzer_, Analyzer::open(c_.settings.analyzer));
    if (c_.settings.chunk.kind == ChunkKind::kTokens) {
      MAKAR_TRY(tokenizer_, Tokenizer::load(c_.settings.tokenizer));
    }
    MAKAR_TRY(vectors_, store_.chunks_with_vectors(c_));
    MAKAR_TRY(const auto documents,
              store_.database().rows("SELECT id, name, title, index_title, hash, metadata FROM documents "
                                     "WHERE collection = ? ORDER BY id",
                                     {c_.id}));
    for (const SqlRow& row : documents) MAKAR_RETURN_IF_ERROR(check_document(row));
    MAKAR_RETURN_IF_ERROR(check_postings());
    const auto count = static_cast<int64_t>(documents.size());
    if (count != c_.documents || chunks_ != c_.chunks || terms_ != c_.terms)
      return error_at(place_, "the totals are {} documents, {} chunks, {} terms; expected {}, {}, {}",
                      c_.documents, c_.chunks, c_.terms, count, chunks_, terms_);
    out.documents += count, out.chunks += chunks_, ++out.collections;
    return Done{};
  }

 private:
  static size_t hash_of(const std::string& term, const Posting& p) {
    return std::hash<std::string>{}(fmt::format("{} {} {} {}", term, p.chunk, p.count, p.length));
  }

  Status check_document(const SqlRow& row) {
    SourceDocument d;
    d.name = sql_text(row[1]), d.title = sql_text(row[2]), d.index_title = sql_number(row[3]) != 0;
    MAKAR_TRY(d.text, store_.document_text(sql_number(row[0])));
    MAKAR_TRY(d.metadata, parse_json(sql_text(row[5]), place_));
    const auto mismatch = [&](const char* what) {
      return error_at(place_, "document '{}': {}; remove it and add it again", d.name, what);
    };
    if (document_hash(d) != sql_text(row[4])) return mismatch("the hash does not match the text");
    MAKAR_TRY(const auto expected,
              split_chunks(d.text, c_.settings.chunk, tokenizer_ ? &*tokenizer_ : nullptr));
    MAKAR_TRY(
        const auto stored,
        store_.database().rows(
            "SELECT k.id, k.key, k.begin, k.end, k.length FROM chunks k WHERE k.document = ? ORDER BY k.id",
            {row[0]}));
    if (stored.size() != expected.size()) return mismatch("chunks are missing");
    for (size_t i = 0; i < expected.size(); ++i) {
      const TextChunk& chunk = expected[i];
      const std::string_view text = std::string_view(d.text).substr(chunk.begin, chunk.end - chunk.begin);
      if (sql_text(stored[i][1]) != chunk_key(d.name, chunk.begin, text) ||
          sql_number(stored[i][2]) != static_cast<int64_t>(chunk.begin) ||
          sql_number(stored[i][3]) != static_cast<int64_t>(chunk.end))
        return mismatch("a chunk does not match the text");
      const int64_t id = sql_number(stored[i][0]);
      if (vectors_.contains(id) == c_.settings.model.empty())
        return mismatch("a vector is missing or not expected");
      const auto words = (*analyzer_)(indexed_text(d.title, d.index_title, chunk.heading, text));
      if (sql_number(stored[i][4]) != static_cast<int64_t>(words.size()))
        return mismatch("the length of a chunk is wrong");
      std::map<std::string, uint32_t> counts;
      for (const std::string& word : words) ++counts[word];
      for (const auto& [term, count] : counts)
        expected_hash_ += hash_of(term, {id, count, static_cast<uint32_t>(words.size())});
      terms_ += static_cast<int64_t>(words.size()), ++chunks_;
    }
    return Done{};
  }

  Status check_postings() const {
    std::vector<std::string> terms;
    MAKAR_RETURN_IF_ERROR(store_.each_term(c_, [&](const std::string& term) { terms.push_back(term); }));
    size_t stored_hash = 0;
    for (const std::string& term : terms) {
      MAKAR_TRY(const auto postings, store_.postings(c_, term));
      for (const Posting& p : postings) stored_hash += hash_of(term, p);
    }
    if (expected_hash_ != stored_hash)
      return error_at(place_, "the posting lists do not match the texts; build the index again");
    return Done{};
  }

  const IndexStore& store_;
  const CollectionInfo& c_;
  const std::string place_;
  std::optional<Analyzer> analyzer_;
  std::optional<Tokenizer> tokenizer_;
  std::set<int64_t> vectors_;  // chunks with a vector
  size_t expected_hash_ = 0;   // the sum of the hashes of all postings
  int64_t chunks_ = 0, terms_ = 0;
};

}  // namespace

Result<CheckedIndex> check_index(const IndexStore& store) {
  if (!store.in_postgres()) {
    MAKAR_TRY(const auto integrity, store.database().rows("PRAGMA integrity_check(1)"));
    if (integrity.empty() || sql_text(integrity[0][0]) != "ok")
      return error_at(store.path(), "the database is damaged: {}",
                      integrity.empty() ? "" : sql_text(integrity[0][0]));
  }
  CheckedIndex out;
  MAKAR_TRY(const auto all, store.collections());
  for (const CollectionInfo& c : all) MAKAR_RETURN_IF_ERROR(CollectionCheck(store, c).run(out));
  return out;
}

}  // namespace makar
