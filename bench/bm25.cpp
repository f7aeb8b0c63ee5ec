// BM25: the best 10 of 20,000 texts, against SQLite's FTS5 (and Xapian where it is installed), on one core,
// with all data in memory. Words follow Zipf's law; queries have three words.
#include <sqlite3.h>

#include <cmath>
#include <filesystem>

#include "base/rng.h"
#include "bench/run.h"
#include "retrieval/indexer.h"
#include "retrieval/searcher.h"
#ifdef MAKAR_XAPIAN
#include <xapian.h>
#endif

using namespace makar;
using namespace makar::bench;

namespace {

constexpr uint64_t kTexts = 20000, kWords = 30000, kQueries = 500;

std::string word(const Rng& rng, uint64_t index) {
  return fmt::format("w{}",
                     static_cast<uint64_t>(std::exp(rng.uniform_double(index) * std::log(double{kWords}))));
}
std::string text(uint64_t index) {
  const Rng rng(11, Purpose::kSynthetic, index);
  std::string out;
  const uint64_t length = 40 + rng.bits(0)[1] % 160;
  for (uint64_t i = 1; i <= length; ++i) out += word(rng, i) + " ";
  return out;
}
// Three words of medium frequency.
std::vector<std::string> query(uint64_t index) {
  const Rng rng(12, Purpose::kSynthetic, index);
  std::vector<std::string> out;
  for (uint64_t i = 0; i < 3; ++i) out.push_back(fmt::format("w{}", 10 + rng.bits(i)[0] % 2000));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  RunOptions o;
  if (const auto code = parse(o, "bench_bm25", "BM25 queries per second against SQLite's FTS5.", argc, argv))
    return *code;
  const std::string folder =
      std::filesystem::temp_directory_path() / fmt::format("makar-bm25-{}", ::getpid());
  std::filesystem::create_directories(folder);
  auto store = IndexStore::open(folder + "/i.db", true);
  CollectionSettings settings;
  settings.analyzer.language = "none";
  settings.chunk.kind = ChunkKind::kWhole;
  const auto collection = store->create_collection("c", settings);
  IndexerOptions indexing;
  indexing.commit_documents = 100000;
  auto indexer = Indexer::open(*store, *collection, indexing);
  sqlite3* fts = nullptr;
  sqlite3_open(":memory:", &fts);
  sqlite3_exec(fts, "CREATE VIRTUAL TABLE t USING fts5(x); BEGIN", nullptr, nullptr, nullptr);
  sqlite3_stmt *insert = nullptr, *select = nullptr;
  sqlite3_prepare_v2(fts, "INSERT INTO t VALUES (?)", -1, &insert, nullptr);
#ifdef MAKAR_XAPIAN
  Xapian::WritableDatabase xapian("", Xapian::DB_BACKEND_INMEMORY);
#endif
  for (uint64_t i = 0; i < kTexts; ++i) {
    SourceDocument d;
    d.name = std::to_string(i), d.text = text(i);
    sqlite3_bind_text(insert, 1, d.text.data(), static_cast<int>(d.text.size()), SQLITE_TRANSIENT);
    sqlite3_step(insert), sqlite3_reset(insert);
#ifdef MAKAR_XAPIAN
    Xapian::Document x;
    for (size_t at = 0, end; (end = d.text.find(' ', at)) != std::string::npos; at = end + 1)
      x.add_term(d.text.substr(at, end - at));
    xapian.add_document(x);
#endif
    if (const Status added = indexer->add(std::move(d)); !added.ok())
      return fmt::print("{}\n", added.error().text()), 1;
  }
  if (const Status done = indexer->commit(); !done.ok()) return fmt::print("{}\n", done.error().text()), 1;
  sqlite3_exec(fts, "COMMIT; INSERT INTO t(t) VALUES ('optimize')", nullptr, nullptr, nullptr);
  sqlite3_prepare_v2(fts, "SELECT rowid, rank FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10", -1, &select,
                     nullptr);

  const auto info = store->collection("c");
  const auto table = ChunkTable::open(*store, *info);
  SparseIndex makar_index(*store, *info, *table, {});
  std::vector<std::vector<std::string>> queries;
  std::vector<std::string> matches;
  for (uint64_t i = 0; i < kQueries; ++i) {
    queries.push_back(query(i));
    matches.push_back(fmt::format("{}", fmt::join(queries.back(), " OR ")));
    (void)makar_index.search(queries.back(), 10);  // loads the posting lists
  }
  size_t a = 0, b = 0;
  int64_t hits = 0;
  std::vector<std::function<void()>> calls = {
      [&] { hits += static_cast<int64_t>(makar_index.search(queries[a++ % kQueries], 10)->size()); },
      [&] {
        const std::string& q = matches[b++ % kQueries];
        sqlite3_bind_text(select, 1, q.data(), static_cast<int>(q.size()), SQLITE_STATIC);
        while (sqlite3_step(select) == SQLITE_ROW) hits += sqlite3_column_int64(select, 0) & 1;
        sqlite3_reset(select);
      }};
#ifdef MAKAR_XAPIAN
  size_t c = 0;
  Xapian::Enquire enquire(xapian);
  enquire.set_weighting_scheme(Xapian::BM25Weight(1.2, 0, 1, 0.75, 0));
  calls.push_back([&] {
    const auto& q = queries[c++ % kQueries];
    enquire.set_query(Xapian::Query(Xapian::Query::OP_OR, q.begin(), q.end()));
    hits += enquire.get_mset(0, 10).size();
  });
#endif
  const auto times = o.time(calls, 1);
  for (size_t i = 1; i < times.size(); ++i) {
    Line line{"bm25", "20000 texts, 3 words, best 10", i == 1 ? "sqlite-fts5" : "xapian", "queries/s"};
    line.makar_value = 1 / median(times[0].seconds_per_call),
    line.peer_value = 1 / median(times[i].seconds_per_call);
    line.spread = spread(times[0].seconds_per_call), line.quiet = times[0].quiet && times[i].quiet;
    if (o.json) {
      line.print_json();
    } else {
      fmt::print("{}: {:.0f} {}; {} {:.0f}; ratio {:.2f}, spread {:.3f}\n", line.name, line.makar_value,
                 line.unit, line.peer, line.peer_value, line.ratio(), line.spread);
    }
  }
  sqlite3_finalize(insert), sqlite3_finalize(select), sqlite3_close(fts);
  std::filesystem::remove_all(folder);
  return hits > 0 ? 0 : 1;
}
