// The tools of makar agent.
#pragma once
#include <memory>

#include "apps/sql_reader.h"
#include "apps/tool.h"
#include "retrieval/searcher.h"

namespace makar {

Tool calculator_tool();
// Searches a collection and returns up to `k` passages.
Tool search_tool(std::shared_ptr<Searcher> searcher, size_t k);
// SELECT statements on a database that they cannot change; the description has the schema.
Result<Tool> sql_tool(std::shared_ptr<SqlReader> database);
// Fetches pages from the listed hosts ("example.org", "localhost:8000"); redirects are refused.
// Without hosts every address is refused.
Tool fetch_tool(std::vector<std::string> hosts);
// Programs in the sandbox of eval/sandbox.h: no network, no files but its own.
Tool code_tool(const std::string& language);

// The host with its port of an http or https address, in lower case. Errors: other schemes, user names,
// control characters, addresses without a host.
Result<std::string> host_of(const std::string& url);

}  // namespace makar
