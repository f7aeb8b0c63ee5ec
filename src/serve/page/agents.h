// Traces of agents in a folder, and the answers of people to them, for the page.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace makar {

// The files NAME.jsonl of `makar agent --trace`, newest first: name, question, changed.
Result<Json> list_agents(const std::string& folder);
// {"name", "lines": [...]}: every complete line of the trace.
Result<Json> read_agent(const std::string& folder, const std::string& name);
// Answers request `number` of a trace: {"allow": bool} or {"text"}. Errors: the agent is not
// waiting for it, or it has already been answered.
Status answer_agent(const std::string& folder, const std::string& name, int64_t number, const Json& answer);

// The steps of the functions above, declared for tests. The first `max` complete lines of NAME.jsonl that are
// objects:
Result<std::vector<Json>> read_trace(std::string_view text, const std::string& name, size_t max);
// The last request to a person that has no answer yet; null if there is none.
Json waiting_request(const std::vector<Json>& lines);
// The answer to request `number` as the agent reads it. Errors: `waiting` is not this request, or the answer
// has the wrong type.
Result<Json> answer_to(const Json& waiting, int64_t number, const Json& answer);

}  // namespace makar
