// makar agent: a question, answered in steps with tools.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>

#include "apps/mcp.h"
#include "apps/model_writer.h"
#include "apps/trace_file.h"
#include "base/quote.h"
#include "cli/agent_tools.h"
#include "cli/json_lines.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "cli/with_engine.h"

namespace makar {
namespace {

struct AgentCommand {
  ModelOptions model;
  GenerationFlags flags;
  AgentToolFlags tools;
  AgentOptions agent;
  std::string mode = "react", format = "json", replies, trace;
  std::vector<std::string> words;
  int64_t max_observation_bytes = 4000;
  bool json = false, no_person = false, serve_mcp = false;
  std::optional<TraceFile> trace_file;  // set with --trace
  std::chrono::steady_clock::time_point began;
};

// Prints a prompt on the terminal and reads one line; nullopt without a terminal or at the end of input.
std::optional<std::string> read_answer(const std::string& prompt) {
  if (::isatty(STDIN_FILENO) == 0) return std::nullopt;
  fmt::print(stderr, "{}", prompt);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) {
    // Control characters of a document do not reach the terminal.
    if (c == '\n')
      out += "\n  ";
    else if (static_cast<unsigned char>(c) < ' ' && c != '\t')
      out += '?';
    else if (c != 0x7F)
      out += c;
  }
  return out + "\n";
}

std::string step_text(const AgentStep& step, size_t number) {
  std::string out =
      fmt::format("\nstep {}{}\n", number, step.task < 0 ? "" : fmt::format(" (task {})", step.task + 1));
  if (!step.thought.empty()) out += "thought\n" + indented(step.thought);
  if (!step.tool.empty()) out += fmt::format("action {}\n", step.tool) + indented(dump(step.input));
  if (!step.approval.empty()) out += "approved by a person: " + step.approval + "\n";
  if (!step.observation.empty()) out += "observation\n" + indented(step.observation);
  return out;
}

// Approvals and answers come from the terminal; without one, from the web page that shows the trace file.
void set_person_callbacks(AgentCommand& c) {
  const auto ask_on_page = [&c](Json request) -> std::optional<Json> {
    if (!c.trace_file || ::isatty(STDIN_FILENO) != 0) return std::nullopt;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - c.began;
    fmt::print(stderr, "waiting for an answer on the web page: {}\n", c.trace_file->path());
    return c.trace_file->ask(std::move(request), c.agent.limits.seconds - passed.count());
  };
  c.agent.allow = [ask_on_page](const AgentStep& step) -> std::optional<bool> {
    if (const auto reply = ask_on_page({{"tool", step.tool}, {"input", step.input}}))
      return reply->value("allow", Json(false)) == Json(true);
    const auto reply = read_answer(fmt::format("\nAllow {} {}? [y/N] ", step.tool, dump(step.input)));
    if (!reply) return std::nullopt;
    return *reply == "y" || *reply == "yes";
  };
  c.agent.ask = [ask_on_page](const std::string& question) -> std::optional<std::string> {
    if (const auto reply = ask_on_page({{"question", question}})) {
      const Json text = reply->value("text", Json());
      return text.is_string() ? std::optional(text.get<std::string>()) : std::nullopt;
    }
    return read_answer("\nThe agent asks:\n" + indented(question) + "> ");
  };
}

// Sets the callbacks that ask a person, print the steps and write the trace. `step_count` counts the steps;
// it must outlive the run.
void set_callbacks(AgentCommand& c, size_t& step_count) {
  c.began = std::chrono::steady_clock::now();
  if (!c.no_person) set_person_callbacks(c);
  c.agent.on_plan = [&c](const std::vector<std::string>& plan) {
    if (c.trace_file) c.trace_file->plan(plan);
    if (c.json) return;
    std::string out = "plan\n";
    for (size_t i = 0; i < plan.size(); ++i) out += indented(fmt::format("{}. {}", i + 1, plan[i]));
    print_out(out);
  };
  c.agent.on_step = [&c, &step_count](const AgentStep& step) {
    if (c.trace_file) c.trace_file->step(step);
    if (!c.json) print_out(step_text(step, ++step_count));
  };
}

int finish(AgentCommand& c, const Result<AgentTrace>& trace) {
  if (!trace.ok()) return report(trace.error());
  if (c.trace_file) {
    c.trace_file->end(*trace);
    if (!c.trace_file->status().ok()) warn(c.trace_file->status().error().text());
  }
  const bool answered = trace->end == AgentEnd::kAnswer;
  if (c.json) return print_out(dump(trace_json(*trace)) + "\n") && answered ? 0 : 1;
  print_out(answered ? "\nanswer\n" + indented(trace->answer)
                     : fmt::format("\nended without an answer ({}): {}\n", name(trace->end), trace->reason));
  print_out(fmt::format("\n{} steps, {} prompt tokens, {} generated, {:.1f} s\n", trace->steps.size(),
                        trace->prompt_tokens, trace->tokens, trace->seconds));
  return answered ? 0 : 1;
}

// Runs the agent with replies from a file, to try tools and limits without a model.
int replay(AgentCommand& c, const std::vector<Tool>& tools, const std::string& question) {
  std::vector<std::string> lines;
  const Status read = each_json_line(c.replies, [&](const Json& one, const std::string&) -> Status {
    lines.push_back(one.is_string() ? one.get<std::string>() : dump(one));
    return Done{};
  });
  if (!read.ok()) return report(read.error());
  size_t next = 0;
  const ReplyWriter writer = [&](const Json&, const std::string&, int64_t, double) -> Result<ModelReply> {
    if (next == lines.size())
      return error_at(c.replies, "has only {} replies, and the agent needs another", next);
    return ModelReply{lines[next++], 0, 1};
  };
  size_t step_count = 0;
  set_callbacks(c, step_count);
  return finish(c, run_agent(writer, tools, question, c.agent));
}

int ask_model(AgentCommand& c, const std::vector<Tool>& tools, const std::string& question) {
  return with_engine(c.model, c.flags, [&](Engine& engine, const LanguageModel& language) {
    ModelWriter writer(engine, language, c.flags.generation);
    writer.stop_at({"\nObservation:"});
    size_t step_count = 0;
    set_callbacks(c, step_count);
    return finish(c, run_agent([&](const Json& messages, const std::string& schema, int64_t tokens,
                                   double seconds) { return writer(messages, schema, tokens, seconds); },
                               tools, question, c.agent));
  });
}

// Serves the tools over MCP on standard input and output.
int serve_tools(const std::vector<Tool>& tools, double seconds) {
  std::signal(SIGPIPE, SIG_IGN);
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (const auto reply = mcp_answer(line, tools, seconds))
      if (!print_out(*reply + "\n")) return 1;
  }
  return 0;
}

Status check_command(AgentCommand& c) {
  MAKAR_RETURN_IF_ERROR(c.tools.check());
  if (c.mode != "react" && c.mode != "plan")
    return error_at("--mode", "expected react or plan, got {}", quote(c.mode));
  if (c.format != "json" && c.format != "text")
    return error_at("--format", "expected json or text, got {}", quote(c.format));
  c.agent.mode = c.mode == "plan" ? AgentMode::kPlan : AgentMode::kReact;
  c.agent.format = c.format == "text" ? AgentFormat::kText : AgentFormat::kJson;
  AgentLimits& limits = c.agent.limits;
  const auto check_range = [](const char* flag, int64_t value, int64_t low, int64_t high) -> Status {
    if (value >= low && value <= high) return Done{};
    return error_at(flag, "must be from {} to {}, got {}", low, high, value);
  };
  MAKAR_RETURN_IF_ERROR(check_range("--max-steps", limits.steps, 1, 1000));
  MAKAR_RETURN_IF_ERROR(check_range("--total-tokens", limits.tokens, 1, 1 << 24));
  MAKAR_RETURN_IF_ERROR(check_range("--max-repeats", limits.repeats, 1, 1000));
  MAKAR_RETURN_IF_ERROR(check_range("--max-observation", c.max_observation_bytes, 100, 1 << 20));
  MAKAR_RETURN_IF_ERROR(check_range("--max-tasks", limits.tasks, 1, 100));
  if (!(limits.seconds > 0 && limits.seconds <= 86400))
    return error_at("--max-seconds", "must be above 0 and at most 86400, got {}", limits.seconds);
  limits.observation = static_cast<size_t>(c.max_observation_bytes);
  limits.reply_tokens = c.flags.generation.max_new_tokens;
  if (c.flags.generation.answers != 1) return error_at("--answers", "an agent generates one reply per step");
  if (c.serve_mcp) {
    if (!c.words.empty()) return error_at("--serve-mcp", "takes no question");
    if (!c.trace.empty()) return error_at("--trace", "cannot be combined with --serve-mcp");
    return Done{};
  }
  if (c.words.empty()) return error_at("agent", "expected a question");
  if (c.model.model.empty() == c.replies.empty())
    return error_at("--model", "give -m MODEL, or --replies FILE");
  return Done{};
}

}  // namespace

int run_agent_command(const std::vector<std::string>& arguments) {
  AgentCommand c;
  Options options("agent",
                  "Answer a question in steps: the model calls tools and reads their results until it has "
                  "the answer. Every step is printed. Exit code 1 if a limit ended the run.",
                  "makar agent -m MODEL --index books.db \"How old was the author then?\"");
  options.positional("QUESTION", &c.words, "the question").required = false;
  c.tools.declare(options);
  options.group("Agent");
  options.add("--mode", &c.mode,
              "react: choose each step after the last; plan: write a plan first, then work on each task",
              "NAME");
  options.add("--format", &c.format,
              "json: replies follow a schema, which decoding enforces; text: Thought, Action, Action Input",
              "NAME");
  options.add("--max-steps", &c.agent.limits.steps, "maximum number of replies", "N");
  options.add("--max-seconds", &c.agent.limits.seconds, "time limit of the run in seconds", "S");
  options.add("--total-tokens", &c.agent.limits.tokens, "maximum number of tokens generated in all steps",
              "N");
  options.add("--max-repeats", &c.agent.limits.repeats, "maximum number of identical calls", "N");
  options.add("--max-observation", &c.max_observation_bytes, "maximum bytes of a tool result in the prompt",
              "N");
  options.add("--max-tasks", &c.agent.limits.tasks, "maximum number of tasks in a plan", "N");
  options.add("--approve", &c.agent.approve, "ask a person before each call of this tool; may be repeated",
              "TOOL");
  options.add("--no-person", &c.no_person,
              "never ask a person: where an approval or an answer is needed, the run ends as a handover");
  options.add("--replies", &c.replies,
              "take the replies from a file, one JSON value per line, instead of a model", "FILE");
  options.add("--serve-mcp", &c.serve_mcp, "offer the tools as an MCP server on standard input and output");
  c.model.declare_conditional(options, "; not needed with --replies or --serve-mcp");
  declare_device(options, c.model.device);
  c.model.declare_chat(options);
  options.group("Output");
  options.add("--json", &c.json, "print the trace as one JSON object");
  options.add("--trace", &c.trace,
              "write the trace to a file in this folder; makar serve --agents FOLDER shows it and asks for "
              "approvals",
              "FOLDER");
  c.flags.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = c.flags.check(options); !checked.ok()) return report(checked.error()), 2;
  if (const Status checked = check_command(c); !checked.ok()) return report(checked.error()), 2;
  // A write to an MCP server that has exited fails instead of ending the program.
  std::signal(SIGPIPE, SIG_IGN);
  const auto tools = c.tools.open(c.model.threads);
  if (!tools.ok()) return report(tools.error());
  if (c.serve_mcp) return serve_tools(*tools, c.agent.limits.seconds);
  const std::string question = fmt::format("{}", fmt::join(c.words, " "));
  if (!c.trace.empty()) {
    auto file = TraceFile::create(c.trace, question, c.agent.mode);
    if (!file.ok()) return report(file.error());
    c.trace_file.emplace(std::move(*file));
  }
  return c.replies.empty() ? ask_model(c, *tools, question) : replay(c, *tools, question);
}

}  // namespace makar
