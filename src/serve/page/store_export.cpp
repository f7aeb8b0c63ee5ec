// Preferences between answers, and export: preference data, conversations as text.
#include <algorithm>
#include <ctime>
#include <map>

#include "serve/api/fields.h"
#include "serve/page/store.h"

namespace makar {

Status Store::prefer(const std::string& owner, int64_t chosen, const std::vector<int64_t>& rejected) {
  const std::lock_guard lock(mutex_);
  Database::Transaction transaction(database_);
  MAKAR_RETURN_IF_ERROR(transaction.begin());
  for (const int64_t other : rejected) {
    MAKAR_TRY(
        const auto pair,
        database_.rows("SELECT 1 FROM messages a, messages b WHERE a.id = ? AND b.id = ? AND a.id <> b.id "
                       "AND a.conversation = b.conversation AND a.parent = b.parent AND a.parent <> 0 "
                       "AND a.role = 'assistant' AND b.role = 'assistant' "
                       "AND a.conversation IN (SELECT id FROM conversations WHERE owner = ?)",
                       {chosen, other, owner}));
    if (pair.empty())
      return error_at("rejected", "{} and {} are not two answers to the same message", chosen, other);
    // A new choice replaces the opposite one.
    MAKAR_RETURN_IF_ERROR(
        database_.run("DELETE FROM preferences WHERE chosen = ? AND rejected = ?", {other, chosen}));
    MAKAR_RETURN_IF_ERROR(
        database_.run("INSERT OR REPLACE INTO preferences(chosen, rejected, created) VALUES(?,?,?)",
                      {chosen, other, static_cast<int64_t>(std::time(nullptr))}));
  }
  return transaction.commit();
}

Result<std::vector<Store::Preference>> Store::preferences(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(
      const auto pairs,
      database_.rows("SELECT p.chosen, p.rejected FROM preferences p JOIN messages m ON m.id = p.chosen "
                     "WHERE m.conversation IN (SELECT id FROM conversations WHERE owner = ?1) UNION "
                     "SELECT a.id, b.id FROM conversations c JOIN messages a ON a.conversation = c.id "
                     "JOIN messages b ON b.conversation = a.conversation AND b.parent = a.parent "
                     "WHERE c.owner = ?1 AND a.parent <> 0 AND a.rating = 1 AND b.rating = -1 "
                     "ORDER BY 1, 2 LIMIT 100000",
                     {owner}));
  std::vector<Preference> out;
  for (const SqlRow& pair : pairs) out.push_back({sql_number(pair[0]), sql_number(pair[1])});
  return out;
}

Result<std::string> Store::preference_line(const std::string& owner, const Preference& preference) {
  std::vector<SqlRow> path, other, system;
  {
    const std::lock_guard lock(mutex_);
    // The chosen answer and its ancestors, last to first.
    MAKAR_TRY(path, database_.rows("WITH RECURSIVE up(id, parent, depth) AS ("
                                   "SELECT id, parent, 0 FROM messages WHERE id = ?1 AND conversation IN "
                                   "(SELECT id FROM conversations WHERE owner = ?2) "
                                   "UNION ALL SELECT m.id, m.parent, depth + 1 "
                                   "FROM messages m JOIN up ON m.id = up.parent WHERE depth < 5000) "
                                   "SELECT m.role, m.content, m.conversation FROM up JOIN messages m "
                                   "ON m.id = up.id ORDER BY up.depth",
                                   {preference.chosen, owner}));
    MAKAR_TRY(other, database_.rows("SELECT content FROM messages WHERE id = ?", {preference.rejected}));
    if (path.size() < 2 || other.empty()) return std::string();
    MAKAR_TRY(system, database_.rows("SELECT system FROM conversations WHERE id = ?", {path[0][2]}));
  }
  const auto message = [](const std::string& role, const SqlValue& content) {
    return dump({{"role", role}, {"content", sql_text(content)}});
  };
  std::string out = "{\"prompt\":[";
  if (!system.empty() && !sql_text(system[0][0]).empty()) out += message("system", system[0][0]) + ",";
  for (size_t i = path.size() - 1; i > 0; --i)
    out += message(sql_text(path[i][0]), path[i][1]) + (i > 1 ? "," : "");
  out += "],\"chosen\":[" + message("assistant", path[0][1]);
  return out + "],\"rejected\":[" + message("assistant", other[0][0]) + "]}\n";
}

Result<std::shared_ptr<PreferenceExport>> PreferenceExport::of(Store& store, const std::string& owner) {
  MAKAR_TRY(auto preferences, store.preferences(owner));
  return std::shared_ptr<PreferenceExport>(new PreferenceExport(store, owner, std::move(preferences)));
}

Result<std::string> PreferenceExport::next() {
  constexpr size_t kExportPieceBytes = size_t{256} << 10;
  std::string out;
  while (next_ < preferences_.size() && out.size() < kExportPieceBytes) {
    MAKAR_TRY(const std::string line, store_.preference_line(owner_, preferences_[next_++]));
    out += line;
  }
  return out;
}

std::string as_markdown(const Json& conversation) {
  std::map<int64_t, const Json*> by_id;
  for (const Json& m : conversation.at("messages")) by_id[m.at("id").get<int64_t>()] = &m;
  std::vector<const Json*> branch;
  for (int64_t at = conversation.at("leaf").get<int64_t>(); branch.size() < by_id.size();) {
    const auto it = by_id.find(at);
    if (it == by_id.end()) break;
    branch.push_back(it->second);
    at = it->second->at("parent").get<int64_t>();
  }
  std::string title = conversation.at("title").get<std::string>();
  std::replace(title.begin(), title.end(), '\n', ' ');
  std::string out = "# " + (title.empty() ? "Conversation" : title) + "\n";
  if (const std::string system = conversation.at("system").get<std::string>(); !system.empty())
    out += "\n**System**\n\n" + system + "\n";
  for (auto it = branch.rbegin(); it != branch.rend(); ++it)
    out += fmt::format("\n**{}**\n\n{}\n", (**it).at("role") == "user" ? "You" : "Assistant",
                       (**it).at("content").get<std::string>());
  return out;
}

}  // namespace makar
