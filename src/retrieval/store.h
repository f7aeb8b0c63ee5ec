// The index: collections of documents, their chunks, posting lists and vectors, in one SQLite file or in a
// PostgreSQL database with pgvector. Every change is one transaction: after a crash the index has exactly
// what was committed.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "database/connection.h"
#include "retrieval/analyzer.h"
#include "retrieval/chunker.h"
#include "retrieval/load/loader.h"
#include "retrieval/postings.h"
#include "retrieval/vector_codec.h"

namespace makar {

// How the texts of a collection are processed; fixed when it is created.
struct CollectionSettings {
  AnalyzerOptions analyzer;
  ChunkOptions chunk;
  std::string tokenizer;  // for chunks of tokens
  // The models that embed chunks and queries. Without `model` the collection has no vectors; an empty
  // `query_model` is the same as `model`.
  std::string model, query_model;
  std::string query_prefix, passage_prefix;
  VectorType vector = VectorType::kF32;
  Similarity similarity = Similarity::kCosine;
  bool hnsw = false;

  Json to_json() const;
  static Result<CollectionSettings> from_json(const Json& json, const std::string& place);
  // The name of the first setting that differs, or "".
  std::string difference(const CollectionSettings& other) const;
};

struct CollectionInfo {
  int64_t id = 0;
  std::string name;
  CollectionSettings settings;
  int64_t documents = 0, chunks = 0;
  int64_t terms = 0;    // the sum of the lengths of the chunks
  int64_t vectors = 0;  // width of the vectors, 0 without
};

// A chunk that is ready to be stored.
struct PreparedChunk {
  TextChunk range;
  std::string key;  // its id: a hash of the document's name, its first byte and the text
  std::map<std::string, uint32_t> terms;
  uint32_t length = 0;
  std::vector<float> vector;
};
struct PreparedDocument {
  SourceDocument source;
  std::string hash;  // of everything that is stored
  std::vector<PreparedChunk> chunks;
};

struct StoredDocument {
  int64_t id = 0;
  std::string name, title, hash;
  Json metadata;
  int64_t bytes = 0, chunks = 0;
};

struct StoredChunk {
  int64_t id = 0, document = 0;
  std::string key, heading, text, name, title;  // name and title: the document's
  int64_t begin = 0, end = 0;                   // bytes in the document's text
  Json metadata;                                // the document's
};

// The text of a chunk that is analyzed and embedded: title and heading, if the text does not have them, then
// the text.
std::string indexed_text(const std::string& title, bool index_title, const std::string& heading,
                         std::string_view text);
// The id of a chunk: 16 hexadecimal digits.
std::string chunk_key(const std::string& document, size_t begin, std::string_view text);

// key -> value pairs that a document's metadata must have.
using MetadataFilter = std::vector<std::pair<std::string, std::string>>;

class IndexStore {
 public:
  // A file, or the address of a PostgreSQL database (postgresql://...), where the tables are in the schema
  // makar_index. create false: a missing index is an error.
  static Result<IndexStore> open(const std::string& path, bool create);

  Result<std::vector<CollectionInfo>> collections() const;
  // Fails if there is none; the error lists the existing collections.
  Result<CollectionInfo> collection(const std::string& name) const;
  Result<std::optional<CollectionInfo>> find_collection(const std::string& name) const;
  Result<CollectionInfo> create_collection(const std::string& name, const CollectionSettings& settings);
  Status remove_collection(const CollectionInfo& collection);

  Result<std::optional<StoredDocument>> document(const CollectionInfo& c, const std::string& name) const;
  Result<std::vector<StoredDocument>> documents(const CollectionInfo& c) const;
  Result<std::string> document_text(int64_t document) const;
  Result<StoredChunk> chunk(int64_t id) const;
  Result<std::optional<StoredChunk>> chunk_by_key(const CollectionInfo& c, const std::string& key) const;
  // Calls `f` for each chunk in ascending order of ids; length: the number of its terms.
  Status each_chunk(const CollectionInfo& c,
                    const std::function<void(int64_t chunk, int64_t document, int64_t length)>& f) const;
  // Ids of the documents whose metadata match.
  Result<std::vector<int64_t>> matching_documents(const CollectionInfo& c,
                                                  const MetadataFilter& filter) const;
  Result<std::vector<Posting>> postings(const CollectionInfo& c, const std::string& term) const;
  Status each_term(const CollectionInfo& c, const std::function<void(const std::string& term)>& f) const;
  Status each_vector(const CollectionInfo& c,
                     const std::function<Status(int64_t chunk, std::string_view bytes)>& f) const;
  // Ids of the chunks that have a vector.
  Result<std::set<int64_t>> chunks_with_vectors(const CollectionInfo& c) const;

  // PostgreSQL only, where pgvector compares: the nearest k chunks with their scores (cosine, dot product, or
  // negative squared distance). `chunks`: only these, or null for all. `ef`, `exact`: of the HNSW index.
  Result<std::vector<std::pair<int64_t, double>>> nearest(const CollectionInfo& c,
                                                          const std::vector<float>& query, size_t k,
                                                          const std::vector<int64_t>* chunks, int64_t ef,
                                                          bool exact) const;
  bool in_postgres() const { return postgres_; }

  // Changes within a transaction of database(). Replaces documents of the same name; returns the ids of the
  // added chunks in order, and of the removed ones.
  struct Change {
    std::vector<int64_t> added, removed;
  };
  Result<Change> add(const CollectionInfo& c, std::span<const PreparedDocument> documents,
                     const Analyzer& analyzer);
  Result<Change> remove(const CollectionInfo& c, std::span<const int64_t> documents,
                        const Analyzer& analyzer);

  const SqlConnection& database() const { return *database_; }
  const std::string& path() const { return database_->path(); }

 private:
  IndexStore(std::unique_ptr<SqlConnection> database, bool postgres)
      : database_(std::move(database)), postgres_(postgres) {}
  static Result<IndexStore> open_postgres(const std::string& address, bool create);
  Status add_vectors(const CollectionInfo& c, const std::vector<std::pair<int64_t, const float*>>& vectors,
                     int64_t width);
  Status add_postings(int64_t collection, const std::map<std::string, std::vector<Posting>>& added);
  Status remove_postings(int64_t collection, const std::map<std::string, std::vector<int64_t>>& removed);
  Status add_totals(int64_t collection, int64_t documents, int64_t chunks, int64_t terms);
  std::unique_ptr<SqlConnection> database_;
  bool postgres_ = false;
};

}  // namespace makar
