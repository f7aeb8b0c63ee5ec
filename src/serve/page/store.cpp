#include "serve/page/store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "base/quote.h"
#include "serve/api/fields.h"

namespace makar {
namespace {

constexpr int64_t kSchemaVersion = 2;
constexpr const char* kTables = R"(
CREATE TABLE conversations(
  id INTEGER PRIMARY KEY, owner TEXT NOT NULL, title TEXT NOT NULL, system TEXT NOT NULL, settings TEXT NOT NULL,
  leaf INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL);
CREATE INDEX conversations_updated ON conversations(owner, updated);
CREATE TABLE messages(
  id INTEGER PRIMARY KEY, conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
  parent INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, meta TEXT NOT NULL,
  rating INTEGER NOT NULL, created INTEGER NOT NULL);
CREATE INDEX messages_conversation ON messages(conversation);
CREATE TABLE preferences(
  chosen INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  rejected INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
  created INTEGER NOT NULL, PRIMARY KEY(chosen, rejected));
CREATE INDEX preferences_rejected ON preferences(rejected);
PRAGMA user_version=1;
)";
// Version 2: stores the message bytes per conversation, and finds ratings without reading texts.
constexpr const char* kToSchema2 = R"(
ALTER TABLE conversations ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE conversations SET bytes = (SELECT coalesce(sum(length(CAST(content AS BLOB)) + length(CAST(meta AS BLOB))), 0)
  FROM messages WHERE conversation = conversations.id);
CREATE INDEX conversations_bytes ON conversations(owner, bytes);
CREATE INDEX messages_ratings ON messages(conversation, parent, rating);
PRAGMA user_version=2;
)";

int64_t now() { return static_cast<int64_t>(std::time(nullptr)); }

Error not_found(const char* what, int64_t id) {
  return error_of(Error::Kind::kNotFound, what, "{} {} not found", what, id);
}

Json object_of(const std::string& text) {
  auto json = parse_json(text, "store");
  return json.ok() && json->is_object() ? std::move(*json) : Json::object();
}

Status check_change(const ConversationChange& c) {
  if (c.title) MAKAR_RETURN_IF_ERROR(Store::check_size("title", c.title->size(), Store::kMaxTitleBytes));
  if (c.system) MAKAR_RETURN_IF_ERROR(Store::check_size("system", c.system->size(), Store::kMaxSystemBytes));
  if (c.settings)
    MAKAR_RETURN_IF_ERROR(Store::check_size("settings", dump(*c.settings).size(), Store::kMaxSettingsBytes));
  return Done{};
}

}  // namespace

std::string default_store_path() {
  const char *data = std::getenv("XDG_DATA_HOME"), *home = std::getenv("HOME");
  if (data && *data == '/') return std::string(data) + "/makar/makar.db";
  return home && *home == '/' ? std::string(home) + "/.local/share/makar/makar.db" : "";
}

Status Store::check_size(const char* field, size_t bytes, size_t max) {
  if (bytes <= max) return Done{};
  return error_of(Error::Kind::kLimit, field, "has {} bytes; the limit is {}", bytes, max);
}

Result<std::unique_ptr<Store>> Store::open(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) MAKAR_RETURN_IF_ERROR(make_folder(folder.string()));
  // Create the file readable only by its owner; SQLite copies its mode to the other files.
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return io_error(path, "open");
  ::close(file);
  MAKAR_TRY(Database database, Database::open(path));
  std::unique_ptr<Store> store(new Store(std::move(database)));
  MAKAR_RETURN_IF_ERROR(store->prepare());
  return store;
}

Status Store::prepare() {
  Database::Transaction transaction(database_);
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  MAKAR_TRY(const auto version, database_.rows("PRAGMA user_version"));
  const int64_t stored_version = sql_number(version.at(0).at(0));
  if (stored_version == 0) MAKAR_RETURN_IF_ERROR(database_.script(kTables));
  if (stored_version <= 1) MAKAR_RETURN_IF_ERROR(database_.script(kToSchema2));
  if (stored_version > kSchemaVersion)
    return error_of(Error::Kind::kUnsupported, "store",
                    "was written by a newer makar (schema version {}); update makar or use another file",
                    stored_version);
  return transaction.commit();
}

Result<Json> Store::list(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const auto rows, database_.rows("SELECT c.id, c.title, c.created, c.updated, "
                                            "(SELECT count(*) FROM messages m WHERE m.conversation = c.id) "
                                            "FROM conversations c WHERE c.owner = ? "
                                            "ORDER BY c.updated DESC, c.id DESC LIMIT ?",
                                            {owner, kMaxListedConversations}));
  Json out = Json::array();
  for (const SqlRow& r : rows)
    out.push_back({{"id", sql_number(r[0])},
                   {"title", sql_text(r[1])},
                   {"created", sql_number(r[2])},
                   {"updated", sql_number(r[3])},
                   {"messages", sql_number(r[4])}});
  return out;
}

Result<Json> Store::create(const std::string& owner, const ConversationChange& fields) {
  MAKAR_RETURN_IF_ERROR(check_change(fields));
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const auto count, database_.rows("SELECT count(*) FROM conversations WHERE owner = ?", {owner}));
  if (sql_number(count.at(0).at(0)) >= kMaxConversations)
    return error_of(Error::Kind::kLimit, "conversations", "there are {} already; delete some",
                    kMaxConversations);
  MAKAR_RETURN_IF_ERROR(
      database_.run("INSERT INTO conversations(owner, title, system, settings, leaf, created, updated) "
                    "VALUES(?,?,?,?,0,?,?)",
                    {owner, fields.title.value_or(""), fields.system.value_or(""),
                     dump(fields.settings.value_or(Json::object())), now(), now()}));
  return read_conversation(owner, database_.last_id());
}

Result<Json> Store::conversation(const std::string& owner, int64_t id) {
  const std::lock_guard lock(mutex_);
  return read_conversation(owner, id);
}

Result<int64_t> Store::bytes_of(const std::string& owner, int64_t id) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const auto rows,
            database_.rows("SELECT bytes FROM conversations WHERE id = ? AND owner = ?", {id, owner}));
  return rows.empty() ? 0 : sql_number(rows[0][0]);
}

Result<Json> Store::read_conversation(const std::string& owner, int64_t id) const {
  MAKAR_TRY(const auto found,
            database_.rows("SELECT title, system, settings, leaf, created, updated FROM conversations "
                           "WHERE id = ? AND owner = ?",
                           {id, owner}));
  if (found.empty()) return not_found("conversation", id);
  const SqlRow& c = found[0];
  MAKAR_TRY(const auto rows,
            database_.rows("SELECT id, parent, role, content, meta, rating, created FROM messages "
                           "WHERE conversation = ? ORDER BY id",
                           {id}));
  Json messages = Json::array();
  for (const SqlRow& r : rows)
    messages.push_back({{"id", sql_number(r[0])},
                        {"parent", sql_number(r[1])},
                        {"role", sql_text(r[2])},
                        {"content", sql_text(r[3])},
                        {"meta", object_of(sql_text(r[4]))},
                        {"rating", sql_number(r[5])},
                        {"created", sql_number(r[6])}});
  return Json{{"id", id},
              {"title", sql_text(c[0])},
              {"system", sql_text(c[1])},
              {"settings", object_of(sql_text(c[2]))},
              {"leaf", sql_number(c[3])},
              {"created", sql_number(c[4])},
              {"updated", sql_number(c[5])},
              {"messages", std::move(messages)}};
}

Status Store::check_message(int64_t id, int64_t conversation) const {
  MAKAR_TRY(const auto found,
            database_.rows("SELECT 1 FROM messages WHERE id = ? AND conversation = ?", {id, conversation}));
  if (found.empty()) return not_found("message", id);
  return Done{};
}

Status Store::check_conversation(const std::string& owner, int64_t id) const {
  MAKAR_TRY(const auto found,
            database_.rows("SELECT 1 FROM conversations WHERE id = ? AND owner = ?", {id, owner}));
  if (found.empty()) return not_found("conversation", id);
  return Done{};
}

Status Store::change(const std::string& owner, int64_t id, const ConversationChange& c) {
  MAKAR_RETURN_IF_ERROR(check_change(c));
  const std::lock_guard lock(mutex_);
  Database::Transaction transaction(database_);
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  MAKAR_RETURN_IF_ERROR(check_conversation(owner, id));
  const auto set = [&](const char* sql, SqlValue value) {
    return database_.run(sql, {std::move(value), id});
  };
  if (c.title) MAKAR_RETURN_IF_ERROR(set("UPDATE conversations SET title = ? WHERE id = ?", *c.title));
  if (c.system) MAKAR_RETURN_IF_ERROR(set("UPDATE conversations SET system = ? WHERE id = ?", *c.system));
  if (c.settings)
    MAKAR_RETURN_IF_ERROR(set("UPDATE conversations SET settings = ? WHERE id = ?", dump(*c.settings)));
  if (c.leaf) {
    if (*c.leaf != 0) MAKAR_RETURN_IF_ERROR(check_message(*c.leaf, id));
    MAKAR_RETURN_IF_ERROR(set("UPDATE conversations SET leaf = ? WHERE id = ?", *c.leaf));
  }
  return transaction.commit();
}

Status Store::remove(const std::string& owner, int64_t id) {
  const std::lock_guard lock(mutex_);
  MAKAR_RETURN_IF_ERROR(database_.run("DELETE FROM conversations WHERE id = ? AND owner = ?", {id, owner}));
  if (database_.changed() == 0) return not_found("conversation", id);
  return Done{};
}

Result<Json> Store::add(const std::string& owner, int64_t conversation, const NewMessage& m) {
  const std::string meta = dump(m.meta);
  MAKAR_RETURN_IF_ERROR(check_size("content", m.content.size(), kMaxContentBytes));
  MAKAR_RETURN_IF_ERROR(check_size("meta", meta.size(), kMaxMetaBytes));
  if (m.role != "user" && m.role != "assistant")
    return error_at("role", "expected user or assistant, found {}", quote(m.role));
  const std::lock_guard lock(mutex_);
  Database::Transaction transaction(database_);
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  MAKAR_RETURN_IF_ERROR(check_conversation(owner, conversation));
  if (m.parent != 0) MAKAR_RETURN_IF_ERROR(check_message(m.parent, conversation));
  MAKAR_TRY(const auto sums, database_.rows("SELECT (SELECT count(*) FROM messages WHERE conversation = ?1), "
                                            "(SELECT bytes FROM conversations WHERE id = ?1), "
                                            "(SELECT sum(bytes) FROM conversations WHERE owner = ?2)",
                                            {conversation, owner}));
  const int64_t count = sql_number(sums.at(0).at(0)), bytes = sql_number(sums.at(0).at(1)),
                owner_bytes = sql_number(sums.at(0).at(2));
  const auto added_bytes = static_cast<int64_t>(m.content.size() + meta.size());
  if (count >= kMaxMessagesPerConversation)
    return error_of(Error::Kind::kLimit, "conversation", "has {} messages; begin a new one", count);
  MAKAR_RETURN_IF_ERROR(
      check_size("conversation", static_cast<size_t>(bytes + added_bytes), kMaxConversationBytes));
  if (owner_bytes + added_bytes > kMaxOwnerBytes)
    return error_of(Error::Kind::kLimit, "conversations", "have {} bytes; the limit is {}: delete some",
                    owner_bytes, kMaxOwnerBytes);
  MAKAR_RETURN_IF_ERROR(
      database_.run("INSERT INTO messages(conversation, parent, role, content, meta, rating, created) "
                    "VALUES(?,?,?,?,?,0,?)",
                    {conversation, m.parent, m.role, m.content, meta, now()}));
  const int64_t id = database_.last_id();
  MAKAR_RETURN_IF_ERROR(
      database_.run("UPDATE conversations SET leaf = ?, updated = ?, bytes = bytes + ? WHERE id = ?",
                    {id, now(), added_bytes, conversation}));
  MAKAR_RETURN_IF_ERROR(transaction.commit());
  return Json{{"id", id}, {"parent", m.parent}, {"created", now()}};
}

Status Store::rate(const std::string& owner, int64_t message, int64_t rating) {
  const std::lock_guard lock(mutex_);
  MAKAR_RETURN_IF_ERROR(
      database_.run("UPDATE messages SET rating = ? WHERE id = ? AND role = 'assistant' AND conversation IN "
                    "(SELECT id FROM conversations WHERE owner = ?)",
                    {rating, message, owner}));
  if (database_.changed() == 0) return not_found("message", message);
  return Done{};
}

}  // namespace makar
