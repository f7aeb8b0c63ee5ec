// Agents: a model that answers a question in steps, calling tools between them.
//   ReAct (Yao et al., 2023): thought, action, observation, until there is an answer.
//   Plan and execute (Wang et al., 2023): a plan first; each of its tasks is a ReAct loop; then the answer.
#pragma once
#include <chrono>
#include <optional>

#include "apps/tool.h"

namespace makar {

// kJson: {"thought", "tool", "input"} or {"thought", "answer"}, a schema that decoding can enforce.
// kText: "Thought: ... Action: NAME Action Input: {...}" or "Thought: ... Final Answer: ...".
enum class AgentFormat { kJson, kText };
enum class AgentMode { kReact, kPlan };

struct AgentLimits {
  int64_t steps = 12;          // replies of the model
  double seconds = 300;        // of the whole run
  int64_t tokens = 8192;       // that the model writes, in total
  int64_t reply_tokens = 512;  // per reply
  int64_t repeats = 2;         // times that the same call may run
  size_t observation = 4000;   // bytes of a result that the model sees
  int64_t tasks = 8;           // of a plan
};

struct ModelReply {
  std::string text;
  int64_t prompt_tokens = 0, tokens = 0;
};
// Writes the next message of a conversation. `schema`: a JSON schema of the reply, or "" for free text. Only
// its return value is parsed for calls; documents and results are plain text.
using ReplyWriter = std::function<Result<ModelReply>(const Json& messages, const std::string& schema,
                                                     int64_t max_tokens, double seconds)>;

struct AgentStep {
  int64_t task = -1;  // of the plan; -1: none
  std::string thought, tool, answer;
  Json input;               // of the tool
  std::string observation;  // the text appended to the prompt after the action
  std::string error;        // of the reply or of the tool; also in the observation
  std::string approval;     // "yes" or "no" if a person had to approve the call
  int64_t prompt_tokens = 0, tokens = 0;
  double seconds = 0;
};

enum class AgentEnd { kAnswer, kSteps, kTime, kTokens, kRepeats, kHandover };
const char* name(AgentEnd end);

struct AgentTrace {
  std::string question, answer, reason;  // reason: why there is no answer
  AgentEnd end = AgentEnd::kSteps;
  std::vector<std::string> plan;
  std::vector<AgentStep> steps;
  int64_t prompt_tokens = 0, tokens = 0;
  double seconds = 0;
};
Json step_json(const AgentStep& step);
Json trace_json(const AgentTrace& trace);

struct AgentOptions {
  AgentFormat format = AgentFormat::kJson;
  AgentMode mode = AgentMode::kReact;
  AgentLimits limits;
  std::vector<std::string> approve;  // tools that a person must allow each time
  bool may_ask = true;               // the model may hand over to a person
  // Whether a call may run; none: no person is available, and the run ends as a handover.
  std::function<std::optional<bool>(const AgentStep& step)> allow;
  // The answer of a person; none: no person is available.
  std::function<std::optional<std::string>(const std::string& question)> ask;
  std::function<void(const std::vector<std::string>& plan)> on_plan;
  std::function<void(const AgentStep& step)> on_step;
};

// Runs until an answer or a limit; a limit is an end, not an error. Errors: the model failed, or two tools
// have the same name.
Result<AgentTrace> run_agent(const ReplyWriter& model, const std::vector<Tool>& tools,
                             const std::string& question, const AgentOptions& options);

// A reply as thought and call, or thought and answer. Errors say what the model should have written.
Result<AgentStep> read_reply(const std::string& text, AgentFormat format);
// The schema of a reply.
std::string reply_schema(const std::vector<Tool>& tools, bool may_ask);

constexpr const char* kAskPerson = "ask_person";

}  // namespace makar
