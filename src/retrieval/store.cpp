#include "retrieval/store.h"

#include "base/file.h"
#include "base/nearest.h"
#include "base/sha256.h"
#include "database/postgres.h"
#include "database/sqlite.h"

namespace makar {
namespace {

constexpr int64_t kApplicationId = 0x6D6B6978;  // "mkix" in the header of the file
constexpr int64_t kFormatVersion = 1;

constexpr const char* kSchema = R"(
CREATE TABLE collections (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  settings TEXT NOT NULL,
  documents INTEGER NOT NULL DEFAULT 0,
  chunks INTEGER NOT NULL DEFAULT 0,
  terms INTEGER NOT NULL DEFAULT 0);
CREATE TABLE documents (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  collection INTEGER NOT NULL REFERENCES collections(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  title TEXT NOT NULL,
  index_title INTEGER NOT NULL,
  hash TEXT NOT NULL,
  metadata TEXT NOT NULL,
  text TEXT NOT NULL,
  UNIQUE (collection, name));
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  collection INTEGER NOT NULL REFERENCES collections(id) ON DELETE CASCADE,
  document INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  begin INTEGER NOT NULL,
  end INTEGER NOT NULL,
  heading TEXT NOT NULL,
  length INTEGER NOT NULL);
CREATE INDEX chunks_by_document ON chunks (document);
CREATE INDEX chunks_by_collection ON chunks (collection, id, document, length);
CREATE INDEX chunks_by_key ON chunks (collection, key);
CREATE TABLE postings (
  collection INTEGER NOT NULL REFERENCES collections(id) ON DELETE CASCADE,
  term TEXT NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (collection, term, first)) WITHOUT ROWID;
CREATE TABLE vectors (
  chunk INTEGER PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE,
  data BLOB NOT NULL);
CREATE TABLE graph (
  chunk INTEGER PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE,
  links BLOB NOT NULL);
)";

Result<CollectionInfo> read_info(const SqlRow& row, const std::string& path) {
  CollectionInfo out;
  out.id = sql_number(row[0]), out.name = sql_text(row[1]);
  const std::string place = path + ": collection '" + out.name + "'";
  MAKAR_TRY(const Json settings, parse_json(sql_text(row[2]), place));
  MAKAR_TRY(out.settings, CollectionSettings::from_json(settings, place));
  out.documents = sql_number(row[3]), out.chunks = sql_number(row[4]), out.terms = sql_number(row[5]);
  const int64_t bytes = sql_number(row[6]);
  out.vectors = out.settings.vector == VectorType::kF32 ? bytes / 4 : std::max<int64_t>(0, bytes - 4);
  return out;
}

// The last column: bytes of a vector.
std::string info_query(bool postgres) {
  return std::string("SELECT id, name, settings, documents, chunks, terms, ") +
         (postgres ? "4 * width"
                   : "(SELECT length(v.data) FROM chunks k JOIN vectors v ON v.chunk = k.id WHERE "
                     "k.collection = collections.id LIMIT 1)") +
         " FROM collections ";
}

// Stored metadata; an empty object if they are damaged, since the file is untrusted.
Json stored_json(const std::string& text) {
  const auto json = parse_json(text, "metadata");
  return json.ok() && json->is_object() ? *json : Json::object();
}

// Offsets count bytes: texts are cut and measured as bytes.
std::string chunk_query(bool postgres) {
  return fmt::format(
      "SELECT k.id, k.document, k.key, k.heading, substr({}, CAST(k.begin + 1 AS INTEGER), "
      "CAST(k.end - k.begin AS INTEGER)), d.name, d.title, k.begin, k.end, d.metadata FROM chunks k JOIN "
      "documents d ON d.id = k.document ",
      postgres ? "convert_to(d.text, 'UTF8')" : "CAST(d.text AS BLOB)");
}

StoredChunk read_chunk(const SqlRow& row) {
  return {sql_number(row[0]), sql_number(row[1]),
          sql_text(row[2]),   sql_text(row[3]),
          sql_text(row[4]),   sql_text(row[5]),
          sql_text(row[6]),   sql_number(row[7]),
          sql_number(row[8]), stored_json(sql_text(row[9]))};
}

StoredDocument read_document(const SqlRow& row) {
  return {sql_number(row[0]),
          sql_text(row[1]),
          sql_text(row[2]),
          sql_text(row[3]),
          stored_json(sql_text(row[4])),
          sql_number(row[5]),
          sql_number(row[6])};
}
std::string document_query(bool postgres) {
  return fmt::format(
      "SELECT d.id, d.name, d.title, d.hash, d.metadata, {}, (SELECT count(*) FROM chunks k WHERE k.document "
      "= "
      "d.id) FROM documents d WHERE d.collection = ? ",
      postgres ? "octet_length(d.text)" : "length(CAST(d.text AS BLOB))");
}

// Whether metadata have a key with this value; numbers, true, false and null as JSON writes them.
bool has_metadata(const Json& metadata, const std::string& key, const std::string& value) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return false;
  return found->is_string() ? found->get_ref<const std::string&>() == value : found->dump() == value;
}

}  // namespace

std::string indexed_text(const std::string& title, bool index_title, const std::string& heading,
                         std::string_view text) {
  std::string out;
  if (index_title) out += title + "\n";
  if (!heading.empty()) out += heading + "\n";
  return out += text;
}

std::string chunk_key(const std::string& document, size_t begin, std::string_view text) {
  Sha256 hash;
  hash.add(fmt::format("{}:{}:{}:", document.size(), document, begin));
  hash.add(text);
  return hash.hex().substr(0, 16);
}

Result<IndexStore> IndexStore::open(const std::string& path, bool create) {
  if (is_postgres_address(path)) return open_postgres(path, create);
  if (!create && !is_file(path))
    return error_of(Error::Kind::kNotFound, path, "no such index; makar index add {} FILE creates it", path);
  DatabaseOptions options;
  options.max_pages = 0xFFFFFFFE, options.max_value = 0x7FFFFFFF, options.create = create;
  MAKAR_TRY(Database database, Database::open(path, options));
  IndexStore out(std::make_unique<Database>(std::move(database)), false);
  const SqlConnection& db = *out.database_;
  // Another process may create the schema at the same time: check and create in one transaction.
  SqlTransaction transaction(db);
  MAKAR_TRY(auto id, db.rows("PRAGMA application_id"));
  MAKAR_TRY(auto version, db.rows("PRAGMA user_version"));
  if (sql_number(id[0][0]) != kApplicationId) {
    MAKAR_RETURN_IF_ERROR(transaction.begin());
    MAKAR_TRY(id, db.rows("PRAGMA application_id"));
    MAKAR_TRY(const auto tables, db.rows("SELECT count(*) FROM sqlite_master"));
    if (sql_number(id[0][0]) != kApplicationId) {
      if (sql_number(tables[0][0]) != 0)
        return error_at(path, "is a database of another program, not an index of makar");
      MAKAR_RETURN_IF_ERROR(db.script(kSchema));
      MAKAR_RETURN_IF_ERROR(db.script(
          fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplicationId, kFormatVersion)));
    }
    MAKAR_RETURN_IF_ERROR(transaction.commit());
    MAKAR_TRY(version, db.rows("PRAGMA user_version"));
  }
  if (sql_number(version[0][0]) != kFormatVersion)
    return error_of(Error::Kind::kUnsupported, path,
                    "has version {} of the index format, expected {}; build the index again",
                    sql_number(version[0][0]), kFormatVersion);
  return out;
}

Result<std::vector<CollectionInfo>> IndexStore::collections() const {
  MAKAR_TRY(const auto rows, database_->rows(info_query(postgres_) + "ORDER BY name"));
  std::vector<CollectionInfo> out;
  for (const SqlRow& row : rows) {
    MAKAR_TRY(CollectionInfo info, read_info(row, path()));
    out.push_back(std::move(info));
  }
  return out;
}

Result<std::optional<CollectionInfo>> IndexStore::find_collection(const std::string& name) const {
  MAKAR_TRY(const auto rows, database_->rows(info_query(postgres_) + "WHERE name = ?", {name}));
  if (rows.empty()) return std::optional<CollectionInfo>();
  MAKAR_TRY(CollectionInfo info, read_info(rows[0], path()));
  return std::optional(std::move(info));
}

Result<CollectionInfo> IndexStore::collection(const std::string& name) const {
  MAKAR_TRY(auto found, find_collection(name));
  if (found) return std::move(*found);
  MAKAR_TRY(const auto all, collections());
  std::vector<std::string> known;
  for (const CollectionInfo& info : all) known.push_back(info.name);
  return error_of(Error::Kind::kNotFound, path(), "has no collection '{}'{}; it has {}", name,
                  did_you_mean(name, known),
                  known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

Result<CollectionInfo> IndexStore::create_collection(const std::string& name,
                                                     const CollectionSettings& settings) {
  if (postgres_ && !settings.model.empty() && settings.vector != VectorType::kF32)
    return error_at("--vector", "pgvector compares f32 vectors; int8 is for an index in a file");
  MAKAR_RETURN_IF_ERROR(
      database_->run("INSERT INTO collections (name, settings) VALUES (?, ?) ON CONFLICT DO NOTHING",
                     {name, settings.to_json().dump()}));
  return collection(name);
}

Status IndexStore::remove_collection(const CollectionInfo& c) {
  SqlTransaction transaction(*database_);
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  if (postgres_) MAKAR_RETURN_IF_ERROR(database_->run(fmt::format("DROP TABLE IF EXISTS vectors_{}", c.id)));
  MAKAR_RETURN_IF_ERROR(database_->run("DELETE FROM collections WHERE id = ?", {c.id}));
  return transaction.commit();
}

Result<std::optional<StoredDocument>> IndexStore::document(const CollectionInfo& c,
                                                           const std::string& name) const {
  MAKAR_TRY(const auto rows, database_->rows(document_query(postgres_) + "AND d.name = ?", {c.id, name}));
  if (rows.empty()) return std::optional<StoredDocument>();
  return std::optional(read_document(rows[0]));
}

Result<std::vector<StoredDocument>> IndexStore::documents(const CollectionInfo& c) const {
  std::vector<StoredDocument> out;
  MAKAR_RETURN_IF_ERROR(database_->each(document_query(postgres_) + "ORDER BY d.name", {c.id},
                                        [&](const SqlRow& row) { out.push_back(read_document(row)); }));
  return out;
}

Result<std::string> IndexStore::document_text(int64_t document) const {
  MAKAR_TRY(const auto rows, database_->rows("SELECT text FROM documents WHERE id = ?", {document}));
  if (rows.empty()) return error_of(Error::Kind::kNotFound, path(), "has no document {}", document);
  return sql_text(rows[0][0]);
}

Result<StoredChunk> IndexStore::chunk(int64_t id) const {
  MAKAR_TRY(const auto rows, database_->rows(chunk_query(postgres_) + "WHERE k.id = ?", {id}));
  if (rows.empty()) return error_of(Error::Kind::kNotFound, path(), "has no chunk {}", id);
  return read_chunk(rows[0]);
}

Result<std::optional<StoredChunk>> IndexStore::chunk_by_key(const CollectionInfo& c,
                                                            const std::string& key) const {
  MAKAR_TRY(const auto rows,
            database_->rows(chunk_query(postgres_) + "WHERE k.collection = ? AND k.key = ?", {c.id, key}));
  if (rows.empty()) return std::optional<StoredChunk>();
  return std::optional(read_chunk(rows[0]));
}

Status IndexStore::each_chunk(
    const CollectionInfo& c,
    const std::function<void(int64_t chunk, int64_t document, int64_t length)>& f) const {
  return database_->each(
      "SELECT id, document, length FROM chunks WHERE collection = ? ORDER BY id", {c.id},
      [&](const SqlRow& row) { f(sql_number(row[0]), sql_number(row[1]), sql_number(row[2])); });
}

Result<std::vector<int64_t>> IndexStore::matching_documents(const CollectionInfo& c,
                                                            const MetadataFilter& filter) const {
  std::vector<int64_t> out;
  MAKAR_RETURN_IF_ERROR(database_->each("SELECT id, metadata FROM documents WHERE collection = ? ORDER BY id",
                                        {c.id}, [&](const SqlRow& row) {
                                          const Json metadata = stored_json(sql_text(row[1]));
                                          for (const auto& [key, value] : filter)
                                            if (!has_metadata(metadata, key, value)) return;
                                          out.push_back(sql_number(row[0]));
                                        }));
  return out;
}

Result<std::vector<Posting>> IndexStore::postings(const CollectionInfo& c, const std::string& term) const {
  std::vector<Posting> out;
  Status status = Done{};
  MAKAR_RETURN_IF_ERROR(
      database_->each("SELECT first, data FROM postings WHERE collection = ? AND term = ? ORDER BY first",
                      {c.id, term}, [&](const SqlRow& row) {
                        if (status.ok())
                          status = read_postings(sql_text(row[1]), sql_number(row[0]), path(), out);
                      }));
  MAKAR_RETURN_IF_ERROR(status);
  return out;
}

Status IndexStore::each_term(const CollectionInfo& c,
                             const std::function<void(const std::string&)>& f) const {
  return database_->each("SELECT DISTINCT term FROM postings WHERE collection = ? ORDER BY term", {c.id},
                         [&](const SqlRow& row) { f(sql_text(row[0])); });
}

Status IndexStore::each_vector(const CollectionInfo& c,
                               const std::function<Status(int64_t chunk, std::string_view bytes)>& f) const {
  Status status = Done{};
  MAKAR_RETURN_IF_ERROR(
      database_->each("SELECT k.id, v.data FROM chunks k JOIN vectors v ON v.chunk = k.id WHERE k.collection "
                      "= ? ORDER BY k.id",
                      {c.id}, [&](const SqlRow& row) {
                        if (status.ok())
                          if (const auto* blob = std::get_if<SqlBlob>(&row[1]))
                            status = f(sql_number(row[0]), blob->bytes);
                      }));
  return status;
}

}  // namespace makar
