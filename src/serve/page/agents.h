// Traces of agents in a folder, and the answers of people to them, for the page.
#pragma once
#include <string>

#include "base/json.h"

namespace makar {

// The files NAME.jsonl of `makar agent --trace`, newest first: name, question, changed.
Result<Json> list_agents(const std::string& folder);
// {"name", "lines": [...]}: every complete line of the trace.
Result<Json> read_agent(const std::string& folder, const std::string& name);
// Answers request `number` of a trace: {"allow": bool} or {"text"}. Errors: nothing is asked, or it is
// answered already.
Status answer_agent(const std::string& folder, const std::string& name, int64_t number, const Json& answer);

}  // namespace makar
