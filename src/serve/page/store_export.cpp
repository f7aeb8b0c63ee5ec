// Choices between answers, and what is taken out of the store: preference data, conversations as text.
#include <algorithm>
#include <ctime>
#include <map>

#include "serve/api/fields.h"
#include "serve/page/store.h"

namespace makar {

Status Store::prefer(const std::string& owner, int64_t chosen, const std::vector<int64_t>& rejected) {
  const std::lock_guard lock(mutex_);
  Database::Transaction all(database_);
  MAKAR_CHECK_OK(all.begin());
  for (const int64_t other : rejected) {
    MAKAR_TRY(
        const auto pair,
        database_.rows("SELECT 1 FROM messages a, messages b WHERE a.id = ? AND b.id = ? AND a.id <> b.id "
                       "AND a.conversation = b.conversation AND a.parent = b.parent AND a.parent <> 0 "
                       "AND a.role = 'assistant' AND b.role = 'assistant' "
                       "AND a.conversation IN (SELECT id FROM conversations WHERE owner = ?)",
                       {chosen, other, owner}));
    if (pair.empty())
      return error_at("rejected", "{} and {} are no two answers to one message", chosen, other);
    // A change of mind replaces the first choice.
    MAKAR_CHECK_OK(
        database_.run("DELETE FROM preferences WHERE chosen = ? AND rejected = ?", {other, chosen}));
    MAKAR_CHECK_OK(
        database_.run("INSERT OR REPLACE INTO preferences(chosen, rejected, created) VALUES(?,?,?)",
                      {chosen, other, static_cast<int64_t>(std::time(nullptr))}));
  }
  return all.commit();
}

Result<std::string> Store::preferences(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(
      const auto pairs,
      database_.rows("SELECT p.chosen, p.rejected FROM preferences p JOIN messages m ON m.id = p.chosen "
                     "WHERE m.conversation IN (SELECT id FROM conversations WHERE owner = ?1) UNION "
                     "SELECT a.id, b.id FROM messages a JOIN messages b "
                     "ON a.conversation = b.conversation AND a.parent = b.parent AND a.parent <> 0 "
                     "WHERE a.rating = 1 AND b.rating = -1 "
                     "AND a.conversation IN (SELECT id FROM conversations WHERE owner = ?1) "
                     "ORDER BY 1, 2 LIMIT 100000",
                     {owner}));
  std::string out;
  for (const SqlRow& pair : pairs) {
    // The chosen answer and everything before it, from the last to the first.
    MAKAR_TRY(const auto path,
              database_.rows("WITH RECURSIVE up(id, parent, role, content, conversation, depth) AS ("
                             "SELECT id, parent, role, content, conversation, 0 FROM messages WHERE id = ? "
                             "UNION ALL SELECT m.id, m.parent, m.role, m.content, m.conversation, depth + 1 "
                             "FROM messages m JOIN up ON m.id = up.parent WHERE depth < 5000) "
                             "SELECT role, content, conversation FROM up ORDER BY depth",
                             {pair[0]}));
    MAKAR_TRY(const auto other, database_.rows("SELECT content FROM messages WHERE id = ?", {pair[1]}));
    if (path.size() < 2 || other.empty()) continue;
    MAKAR_TRY(const auto system,
              database_.rows("SELECT system FROM conversations WHERE id = ?", {path[0][2]}));
    const auto message = [](const std::string& role, const std::string& content) {
      return Json{{"role", role}, {"content", content}};
    };
    Json prompt = Json::array();
    if (!system.empty() && !sql_text(system[0][0]).empty())
      prompt.push_back(message("system", sql_text(system[0][0])));
    for (size_t i = path.size() - 1; i > 0; --i)
      prompt.push_back(message(sql_text(path[i][0]), sql_text(path[i][1])));
    out += dump({{"prompt", std::move(prompt)},
                 {"chosen", Json::array({message("assistant", sql_text(path[0][1]))})},
                 {"rejected", Json::array({message("assistant", sql_text(other[0][0]))})}}) +
           "\n";
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
