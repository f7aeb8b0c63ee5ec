// Any bytes as the file of an agent's trace: complete lines, or an error with its line; then the request that
// waits for a person, and answers to it.
#include "serve/page/agents.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(serve_trace) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto lines = read_trace(text, "fuzz", SIZE_MAX);
  if (!lines.ok()) {
    check(lines.error().text().find("fuzz.jsonl:") != std::string::npos, "an error with its line");
    check(lines.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  for (const Json& line : *lines) check(line.is_object(), "lines are objects");
  const Json waiting = waiting_request(*lines);
  check(waiting.is_null() || waiting.is_object(), "a waiting request is an object or null");
  for (const Json& answer : {Json{{"allow", true}}, Json{{"text", "x"}}, Json::object()})
    if (const auto response = answer_to(waiting, 1, answer); response.ok())
      check(response->is_object() && response->size() == 1, "an answer has one field");
  return 0;
}
