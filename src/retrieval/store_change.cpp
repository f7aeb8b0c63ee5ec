// Adding and removing documents.
#include <algorithm>

#include "retrieval/store.h"

namespace makar {
namespace {

// Rows of postings up to this size stay inside their page of the database.
constexpr size_t kMaxRowBytes = 900;
constexpr size_t kPostingBytes = 8;  // about the size of one more posting

}  // namespace

Status IndexStore::add_postings(int64_t collection,
                                const std::map<std::string, std::vector<Posting>>& added) {
  const auto store = [&](const std::string& term, int64_t first, int64_t last, std::string data) {
    return database_->run(
        "INSERT INTO postings (collection, term, first, last, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT "
        "(collection, term, first) DO UPDATE SET last = excluded.last, data = excluded.data",
        {collection, term, first, last, SqlBlob{std::move(data)}});
  };
  for (const auto& [term, postings] : added) {
    MAKAR_TRY(const auto rows,
              database_->rows("SELECT first, last, data FROM postings WHERE collection = ? AND term = ? "
                              "ORDER BY first DESC LIMIT 1",
                              {collection, term}));
    std::string data;
    int64_t first = 0, last = 0;
    if (!rows.empty()) {
      first = sql_number(rows[0][0]), last = sql_number(rows[0][1]), data = sql_text(rows[0][2]);
      check(last < postings.front().chunk, "chunk ids ascend");
      if (data.size() + kPostingBytes > kMaxRowBytes) data.clear();
    }
    for (const Posting& posting : postings) {
      if (!data.empty() && data.size() + kPostingBytes > kMaxRowBytes) {
        MAKAR_RETURN_IF_ERROR(store(term, first, last, std::move(data)));
        data.clear();
      }
      if (data.empty()) first = last = posting.chunk;
      append_posting(data, last, posting);
      last = posting.chunk;
    }
    MAKAR_RETURN_IF_ERROR(store(term, first, last, std::move(data)));
  }
  return Done{};
}

Status IndexStore::remove_postings(int64_t collection,
                                   const std::map<std::string, std::vector<int64_t>>& removed) {
  for (const auto& one : removed) {
    const std::string& term = one.first;
    const std::vector<int64_t>& chunks = one.second;  // ascending
    MAKAR_TRY(const auto rows,
              database_->rows(
                  "SELECT first, data FROM postings WHERE collection = ? AND term = ? AND first <= ? AND "
                  "last >= ?",
                  {collection, term, chunks.back(), chunks.front()}));
    for (const SqlRow& row : rows) {
      std::vector<Posting> postings;
      MAKAR_RETURN_IF_ERROR(read_postings(sql_text(row[1]), sql_number(row[0]), path(), postings));
      const size_t before = postings.size();
      std::erase_if(postings, [&](const Posting& p) {
        return std::binary_search(chunks.begin(), chunks.end(), p.chunk);
      });
      if (postings.size() == before) continue;
      MAKAR_RETURN_IF_ERROR(
          database_->run("DELETE FROM postings WHERE collection = ? AND term = ? AND first = ?",
                         {collection, term, row[0]}));
      if (postings.empty()) continue;
      std::string data;
      int64_t last = postings.front().chunk;
      for (const Posting& p : postings) append_posting(data, last, p), last = p.chunk;
      MAKAR_RETURN_IF_ERROR(
          database_->run("INSERT INTO postings (collection, term, first, last, data) VALUES (?, ?, ?, ?, ?)",
                         {collection, term, postings.front().chunk, last, SqlBlob{std::move(data)}}));
    }
  }
  return Done{};
}

Status IndexStore::add_totals(int64_t collection, int64_t documents, int64_t chunks, int64_t terms) {
  return database_->run(
      fmt::format(
          "UPDATE collections SET documents = documents + ?, chunks = chunks + ?, terms = terms + ?{} "
          "WHERE id = ?",
          postgres_ ? ", changes = changes + 1" : ""),
      {documents, chunks, terms, collection});
}

Result<IndexStore::Change> IndexStore::remove(const CollectionInfo& c, std::span<const int64_t> documents,
                                              const Analyzer& analyzer) {
  Change out;
  std::map<std::string, std::vector<int64_t>> terms;
  int64_t removed_documents = 0, length = 0;
  for (const int64_t document : documents) {
    MAKAR_TRY(
        const auto found,
        database_->rows("SELECT title, index_title, text FROM documents WHERE id = ? AND collection = ?",
                        {document, c.id}));
    if (found.empty()) continue;
    const std::string title = sql_text(found[0][0]), text = sql_text(found[0][2]);
    MAKAR_TRY(const auto chunks, database_->rows("SELECT k.id, k.begin, k.end, k.heading, k.length FROM "
                                                 "chunks k WHERE k.document = ? ORDER BY k.id",
                                                 {document}));
    for (const SqlRow& chunk : chunks) {
      const auto begin = static_cast<size_t>(sql_number(chunk[1])),
                 end = static_cast<size_t>(sql_number(chunk[2]));
      if (begin > end || end > text.size())
        return error_at(path(), "a chunk of document {} ends outside of its text; build the index again",
                        document);
      auto words = analyzer(indexed_text(title, sql_number(found[0][1]) != 0, sql_text(chunk[3]),
                                         std::string_view(text).substr(begin, end - begin)));
      std::sort(words.begin(), words.end());
      words.erase(std::unique(words.begin(), words.end()), words.end());
      for (const std::string& word : words) terms[word].push_back(sql_number(chunk[0]));
      out.removed.push_back(sql_number(chunk[0]));
      length += sql_number(chunk[4]);
    }
    MAKAR_RETURN_IF_ERROR(database_->run("DELETE FROM documents WHERE id = ?", {document}));
    ++removed_documents;
  }
  for (auto& [term, chunks] : terms) std::sort(chunks.begin(), chunks.end());
  MAKAR_RETURN_IF_ERROR(remove_postings(c.id, terms));
  MAKAR_RETURN_IF_ERROR(
      add_totals(c.id, -removed_documents, -static_cast<int64_t>(out.removed.size()), -length));
  return out;
}

Result<IndexStore::Change> IndexStore::add(const CollectionInfo& c,
                                           std::span<const PreparedDocument> documents,
                                           const Analyzer& analyzer) {
  std::vector<int64_t> replaced;
  for (const PreparedDocument& d : documents) {
    MAKAR_TRY(const auto old, document(c, d.source.name));
    if (old) replaced.push_back(old->id);
  }
  Change out;
  if (!replaced.empty()) {
    MAKAR_TRY(out, remove(c, replaced, analyzer));
  }
  std::map<std::string, std::vector<Posting>> postings;
  std::vector<std::pair<int64_t, const float*>> vectors;
  int64_t length = 0, width = 0;
  for (const PreparedDocument& d : documents) {
    MAKAR_TRY(const int64_t document,
              database_->number(
                  "INSERT INTO documents (collection, name, title, index_title, hash, metadata, text) "
                  "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
                  {c.id, d.source.name, d.source.title, int64_t{d.source.index_title}, d.hash,
                   d.source.metadata.dump(), d.source.text}));
    for (const PreparedChunk& chunk : d.chunks) {
      MAKAR_TRY(const int64_t id,
                database_->number("INSERT INTO chunks (collection, document, key, begin, \"end\", heading, "
                                  "length) VALUES (?, ?, ?, ?, "
                                  "?, ?, ?) RETURNING id",
                                  {c.id, document, chunk.key, static_cast<int64_t>(chunk.range.begin),
                                   static_cast<int64_t>(chunk.range.end), chunk.range.heading,
                                   static_cast<int64_t>(chunk.length)}));
      out.added.push_back(id);
      length += chunk.length;
      for (const auto& [term, count] : chunk.terms) postings[term].push_back({id, count, chunk.length});
      if (!chunk.vector.empty()) {
        vectors.emplace_back(id, chunk.vector.data());
        width = static_cast<int64_t>(chunk.vector.size());
      }
    }
  }
  MAKAR_RETURN_IF_ERROR(add_vectors(c, vectors, width));
  MAKAR_RETURN_IF_ERROR(add_postings(c.id, postings));
  MAKAR_RETURN_IF_ERROR(add_totals(c.id, static_cast<int64_t>(documents.size()),
                                   static_cast<int64_t>(out.added.size()), length));
  return out;
}

}  // namespace makar
