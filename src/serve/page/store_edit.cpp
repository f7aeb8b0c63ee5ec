// Edits of single messages, and text search.
#include <chrono>
#include <map>
#include <set>

#include "serve/api/fields.h"
#include "serve/page/store.h"

namespace makar {
namespace {

constexpr std::chrono::seconds kSearchTimeLimit{1};
constexpr const char* kOwnedConversations = "SELECT id FROM conversations WHERE owner = ?";
// Updates the stored size of conversation ?1 after a change of its messages.
constexpr const char* kRecountBytes =
    "UPDATE conversations SET bytes = (SELECT coalesce(sum(length(CAST(content AS BLOB)) + "
    "length(CAST(meta AS BLOB))), 0) FROM messages WHERE conversation = ?1) WHERE id = ?1";

Error no_message(int64_t id) {
  return error_of(Error::Kind::kNotFound, "message", "message {} not found", id);
}

// Escapes % and _ for LIKE.
std::string like_pattern(const std::string& text) {
  std::string out = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') out += '\\';
    out += c;
  }
  return out + "%";
}

}  // namespace

Status Store::edit(const std::string& owner, int64_t message, const MessageChange& change) {
  const std::string meta = change.meta ? dump(*change.meta) : "";
  if (change.content) MAKAR_RETURN_IF_ERROR(check_size("content", change.content->size(), kMaxContentBytes));
  MAKAR_RETURN_IF_ERROR(check_size("meta", meta.size(), kMaxMetaBytes));
  const std::lock_guard lock(mutex_);
  Database::Transaction transaction(database_);
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  MAKAR_TRY(const auto found,
            database_.rows("SELECT conversation FROM messages WHERE id = ? AND conversation IN (" +
                               std::string(kOwnedConversations) + ")",
                           {message, owner}));
  if (found.empty()) return no_message(message);
  const SqlValue conversation = found[0][0];
  if (change.content)
    MAKAR_RETURN_IF_ERROR(
        database_.run("UPDATE messages SET content = ? WHERE id = ?", {*change.content, message}));
  if (change.meta)
    MAKAR_RETURN_IF_ERROR(database_.run("UPDATE messages SET meta = ? WHERE id = ?", {meta, message}));
  MAKAR_RETURN_IF_ERROR(database_.run(kRecountBytes, {conversation}));
  MAKAR_TRY(const auto bytes, database_.rows("SELECT bytes FROM conversations WHERE id = ?", {conversation}));
  MAKAR_RETURN_IF_ERROR(
      check_size("conversation", static_cast<size_t>(sql_number(bytes.at(0).at(0))), kMaxConversationBytes));
  return transaction.commit();
}

Result<Json> Store::remove_message(const std::string& owner, int64_t message) {
  const std::lock_guard lock(mutex_);
  Database::Transaction transaction(database_);
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  MAKAR_TRY(const auto found,
            database_.rows("SELECT c.id, c.leaf, m.parent FROM messages m JOIN conversations c "
                           "ON c.id = m.conversation WHERE m.id = ? AND c.owner = ?",
                           {message, owner}));
  if (found.empty()) return no_message(message);
  const SqlValue conversation = found[0][0];
  MAKAR_TRY(
      const auto rows,
      database_.rows("SELECT id, parent FROM messages WHERE conversation = ? ORDER BY id", {conversation}));
  // A message has a greater id than its parent, so one pass finds all descendants.
  std::set<int64_t> removed = {message};
  std::map<int64_t, int64_t> newest_below;  // by parent, among the remaining messages
  for (const SqlRow& r : rows) {
    const int64_t id = sql_number(r[0]), parent = sql_number(r[1]);
    if (removed.contains(id) || removed.contains(parent))
      removed.insert(id);
    else
      newest_below[parent] = id;
  }
  for (const int64_t id : removed)
    MAKAR_RETURN_IF_ERROR(database_.run("DELETE FROM messages WHERE id = ?", {id}));
  // If the displayed leaf was removed, follow the newest remaining messages below the parent.
  int64_t leaf = sql_number(found[0][1]);
  if (removed.contains(leaf)) {
    leaf = sql_number(found[0][2]);
    for (auto it = newest_below.find(leaf); it != newest_below.end(); it = newest_below.find(leaf))
      leaf = it->second;
  }
  MAKAR_RETURN_IF_ERROR(
      database_.run("UPDATE conversations SET leaf = ? WHERE id = ?", {leaf, conversation}));
  MAKAR_RETURN_IF_ERROR(database_.run(kRecountBytes, {conversation}));
  MAKAR_RETURN_IF_ERROR(transaction.commit());
  return Json{{"leaf", leaf}};
}

Result<Json> Store::search(const std::string& owner, const std::string& text) {
  MAKAR_RETURN_IF_ERROR(check_size("text", text.size(), kMaxSearchBytes));
  const auto locked_rows = [&](const std::string& sql, const SqlRow& values) {
    const std::lock_guard lock(mutex_);
    return database_.rows(sql, values);
  };
  MAKAR_TRY(const auto ids,
            locked_rows("SELECT id FROM conversations WHERE owner = ? ORDER BY updated DESC, id "
                        "DESC LIMIT ?",
                        {owner, kMaxListedConversations}));
  // Search one conversation at a time, releasing the lock in between, up to a time limit.
  const auto end = std::chrono::steady_clock::now() + kSearchTimeLimit;
  const std::string pattern = like_pattern(text);
  Json found = Json::array();
  bool complete = true;
  for (const SqlRow& id : ids) {
    if (std::chrono::steady_clock::now() > end) {
      complete = false;
      break;
    }
    MAKAR_TRY(const auto rows,
              locked_rows("SELECT substr(content, max(1, instr(lower(content), lower(?1)) - 30), 120) "
                          "FROM messages WHERE conversation = ?2 AND content LIKE ?3 ESCAPE '\\' "
                          "ORDER BY id LIMIT 1",
                          {text, id[0], pattern}));
    if (!rows.empty()) found.push_back({{"id", sql_number(id[0])}, {"excerpt", sql_text(rows[0][0])}});
  }
  return Json{{"found", std::move(found)}, {"complete", complete}};
}

}  // namespace makar
