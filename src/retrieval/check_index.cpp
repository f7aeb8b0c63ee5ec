#include "retrieval/check_index.h"

#include "retrieval/indexer.h"

namespace makar {
namespace {

Status check_collection(const IndexStore& store, const CollectionInfo& c, CheckedIndex& out) {
  const std::string place = store.path() + ": collection '" + c.name + "'";
  MAKAR_TRY(const Analyzer analyzer, Analyzer::open(c.settings.analyzer));
  std::optional<Tokenizer> tokenizer;
  if (c.settings.chunk.kind == ChunkKind::kTokens) {
    MAKAR_TRY(tokenizer, Tokenizer::load(c.settings.tokenizer));
  }
  // Of all chunks: a sum of hashes of (term, chunk, count, length), compared with that of the stored lists.
  const auto mix = [](const std::string& term, const Posting& p) {
    return std::hash<std::string>{}(fmt::format("{} {} {} {}", term, p.chunk, p.count, p.length));
  };
  MAKAR_TRY(const auto vectors, store.chunks_with_vectors(c));
  size_t expected = 0, stored = 0;
  int64_t chunks = 0, terms = 0, documents = 0;
  MAKAR_TRY(const auto all,
            store.database().rows("SELECT id, name, title, index_title, hash, metadata FROM documents WHERE "
                                  "collection = ? ORDER BY id",
                                  {c.id}));
  for (const SqlRow& row : all) {
    ++documents;
    SourceDocument d;
    d.name = sql_text(row[1]), d.title = sql_text(row[2]), d.index_title = sql_number(row[3]) != 0;
    MAKAR_TRY(d.text, store.document_text(sql_number(row[0])));
    MAKAR_TRY(d.metadata, parse_json(sql_text(row[5]), place));
    const auto wrong = [&](const char* what) { return error_at(place, "document '{}': {}", d.name, what); };
    if (document_hash(d) != sql_text(row[4])) return wrong("the hash is not that of the text");
    MAKAR_TRY(const auto places, split_chunks(d.text, c.settings.chunk, tokenizer ? &*tokenizer : nullptr));
    MAKAR_TRY(
        const auto kept,
        store.database().rows(
            "SELECT k.id, k.key, k.begin, k.end, k.length FROM chunks k WHERE k.document = ? ORDER BY k.id",
            {row[0]}));
    if (kept.size() != places.size()) return wrong("chunks are missing");
    for (size_t i = 0; i < places.size(); ++i) {
      const std::string_view text =
          std::string_view(d.text).substr(places[i].begin, places[i].end - places[i].begin);
      if (sql_text(kept[i][1]) != chunk_key(d.name, places[i].begin, text) ||
          sql_number(kept[i][2]) != static_cast<int64_t>(places[i].begin) ||
          sql_number(kept[i][3]) != static_cast<int64_t>(places[i].end))
        return wrong("a chunk is not that of the text");
      if (vectors.contains(sql_number(kept[i][0])) == c.settings.model.empty())
        return wrong("a vector is missing or not expected");
      std::map<std::string, uint32_t> counts;
      const auto words = analyzer(indexed_text(d.title, d.index_title, places[i].heading, text));
      for (const std::string& word : words) ++counts[word];
      if (sql_number(kept[i][4]) != static_cast<int64_t>(words.size()))
        return wrong("the length of a chunk is wrong");
      for (const auto& [term, count] : counts)
        expected += mix(term, {sql_number(kept[i][0]), count, static_cast<uint32_t>(words.size())});
      terms += static_cast<int64_t>(words.size()), ++chunks;
    }
  }
  std::vector<std::string> known;
  MAKAR_CHECK_OK(store.each_term(c, [&](const std::string& term) { known.push_back(term); }));
  for (const std::string& term : known) {
    MAKAR_TRY(const auto postings, store.postings(c, term));
    for (const Posting& p : postings) stored += mix(term, p);
  }
  if (expected != stored) return error_at(place, "the posting lists are not those of the texts");
  if (documents != c.documents || chunks != c.chunks || terms != c.terms)
    return error_at(place, "the totals are {} documents, {} chunks, {} terms; expected {}, {}, {}",
                    c.documents, c.chunks, c.terms, documents, chunks, terms);
  out.documents += documents, out.chunks += chunks, ++out.collections;
  return Done{};
}

}  // namespace

Result<CheckedIndex> check_index(const IndexStore& store) {
  if (!store.in_postgres()) {
    MAKAR_TRY(const auto sound, store.database().rows("PRAGMA integrity_check(1)"));
    if (sound.empty() || sql_text(sound[0][0]) != "ok")
      return error_at(store.path(), "the database is damaged: {}",
                      sound.empty() ? "" : sql_text(sound[0][0]));
  }
  CheckedIndex out;
  MAKAR_TRY(const auto all, store.collections());
  for (const CollectionInfo& c : all) MAKAR_CHECK_OK(check_collection(store, c, out));
  return out;
}

}  // namespace makar
