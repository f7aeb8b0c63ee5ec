#include "cli/agent_tools.h"

#include <algorithm>
#include <filesystem>

#include "apps/mcp.h"
#include "apps/tools.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "eval/sandbox.h"

namespace makar {

void AgentToolFlags::declare(Options& options) {
  options.group("Tools");
  options.add("--index", &index, "offer the tool 'search' on this file of makar index", "INDEX");
  options.add("--collection", &collection, "collection of the index", "NAME");
  options.add("--passages", &passages, "number of passages that a search returns", "N");
  options.add("--database", &database,
              "offer the tool 'sql' on a SQLite or CSV file or a PostgreSQL address, read-only", "FILE");
  options.add("--allow-host", &hosts, "offer the tool 'fetch' for pages of this host; may be repeated",
              "HOST");
  options.add("--code", &code,
              "offer the tool 'code', which runs programs in a sandbox: python, javascript or cpp",
              "LANGUAGE");
  options.add("--mcp", &servers, "start this MCP server and offer its tools as NAME_TOOL; may be repeated",
              "NAME=COMMAND");
  options.add("--no-calculator", &no_calculator, "do not offer the calculator");
}

Status AgentToolFlags::check() const {
  const auto languages = program_languages();
  if (!code.empty() && std::find(languages.begin(), languages.end(), code) == languages.end())
    return error_at("--code", "unknown language {}{}; expected one of: {}", quote(code),
                    did_you_mean(code, languages), fmt::join(languages, ", "));
  if (passages < 1 || passages > 100) return error_at("--passages", "must be 1 to 100, got {}", passages);
  for (const std::string& host : hosts) {
    const auto parsed = host_of("http://" + host);
    if (!parsed.ok() || *parsed != host)
      return error_at("--allow-host", "expected a host such as example.org or localhost:8000, got {}",
                      quote(host));
  }
  for (const std::string& server : servers) {
    const size_t equals = server.find('=');
    if (equals == 0 || equals == server.npos || equals + 1 == server.size())
      return error_at("--mcp", "expected NAME=COMMAND, got {}", quote(server));
  }
  return Done{};
}

Result<std::vector<Tool>> AgentToolFlags::open(int64_t threads) const {
  std::vector<Tool> out;
  if (!no_calculator) out.push_back(calculator_tool());
  if (!index.empty()) {
    SearchFlags flags;
    MAKAR_RETURN_IF_ERROR(flags.check());
    MAKAR_TRY(auto searcher, flags.open(index, collection, "cpu", threads));
    out.push_back(search_tool(std::move(searcher), static_cast<size_t>(passages)));
  }
  if (!database.empty()) {
    MAKAR_TRY(SqlReader reader,
              database.ends_with(".csv")
                  ? SqlReader::from_csv(database, std::filesystem::path(database).stem().string())
                  : SqlReader::open(database));
    MAKAR_TRY(Tool tool, sql_tool(std::make_shared<SqlReader>(std::move(reader))));
    out.push_back(std::move(tool));
  }
  if (!hosts.empty()) out.push_back(fetch_tool(hosts));
  if (!code.empty()) out.push_back(code_tool(code));
  for (const std::string& server : servers) {
    const size_t equals = server.find('=');
    MAKAR_TRY(const auto client, McpClient::start(server.substr(equals + 1)));
    MAKAR_TRY(const auto tools, McpClient::tools(client, server.substr(0, equals)));
    out.insert(out.end(), tools.begin(), tools.end());
  }
  return out;
}

}  // namespace makar
