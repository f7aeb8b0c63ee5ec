// A file with the trace of an agent. The page of `makar serve` shows it during the run, and a person may
// answer questions of the agent there. One JSON object per line: {"question", "mode"}, {"plan"}, {"step"},
// {"request"}, {"reply"}, {"end"}.
#pragma once
#include <optional>
#include <string>

#include "apps/agent.h"

namespace makar {

class TraceFile {
 public:
  // Creates FOLDER/NAME.jsonl; the name has the time and the process.
  static Result<TraceFile> create(const std::string& folder, const std::string& question, AgentMode mode);

  void plan(const std::vector<std::string>& tasks) { add({{"plan", tasks}}); }
  void step(const AgentStep& step);
  void end(const AgentTrace& trace);
  // Puts a request to a person into the file and waits for FOLDER/NAME.answer-N.json, which the server
  // writes. `request` has "question", or "tool" and "input". None: no answer in time, or the file cannot be
  // written.
  std::optional<Json> ask(Json request, double seconds);

  const std::string& path() const { return path_; }
  // The first error of writing.
  const Status& status() const { return status_; }

 private:
  TraceFile(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}
  void add(const Json& line);
  std::string path_, name_;  // name_: the path without ".jsonl"
  int64_t requests_ = 0;
  Status status_ = Done{};
};

}  // namespace makar
