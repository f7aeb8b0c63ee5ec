// makar chat: a conversation in the terminal.
#include <editline/readline.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/chat_session.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"

namespace makar {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// Ctrl-C ends the answer; without one it ends the line.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = false;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = true; };
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

// A line with editing and history on a terminal, a plain one from a pipe; nothing at the end.
std::optional<std::string> read_line(bool terminal, const char* prompt) {
  std::string line;
  if (!terminal) {
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  const std::unique_ptr<char, decltype(&std::free)> typed(readline(prompt), &std::free);
  if (!typed) return std::nullopt;
  line = typed.get();
  if (!line.empty()) add_history(line.c_str());
  return line;
}

// Lines that end in a backslash go on.
std::optional<std::string> read_message(bool terminal) {
  auto line = read_line(terminal, "> ");
  while (line && line->ends_with('\\')) {
    const auto more = read_line(terminal, ". ");
    line->back() = '\n';
    if (!more) break;
    *line += *more;
  }
  return line;
}

// With `reasons`, the alternatives of each token follow the answer.
void answer(ChatSession& session, const std::string& message, bool terminal, bool reasons) {
  const InterruptGuard guard;
  const Status status =
      session.say(message, [](const std::string& text) { return print_out(text) && !interrupted; });
  print_out("\n");
  if (!status.ok())
    report(status.error());
  else if (reasons)
    print_out(session.why());
  if (terminal) print_out("\n");
}

}  // namespace

int run_chat(const std::vector<std::string>& arguments) {
  ModelOptions model;
  WritingOptions writing;
  writing.write.max_new_tokens = 1024;
  writing.write.sampler.temperature = 0.7, writing.write.sampler.top_p = 0.95;
  std::string system;
  Options options("chat", "Talk with a model that has a chat template. /help inside lists the commands.",
                  "makar chat -m MODEL");
  model.declare(options);
  model.declare_chat(options);
  writing.declare(options);
  options.add("--system", &system, "what the model is told before anything else", "TEXT");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = writing.check(); !status.ok()) return report(status.error()), 2;
  ThreadPool pool(static_cast<int>(model.threads));
  const auto budget = writing.engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const auto language = open_model(model, pool, *budget);
  if (!language.ok()) return report(language.error());
  if (!language->spec().decoder || !language->chat_template())
    return report(error_of(Error::Kind::kUnsupported, model.model,
                           "{} has no chat template; give one with --chat-template, or continue text with "
                           "makar generate",
                           language->spec().architecture));
  if (const Status status = writing.prepare(*language, pool); !status.ok()) return report(status.error());
  const auto engine_options = writing.engine_options(language->model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  Engine engine(language->model(), pool, *engine_options);
  ChatSession session(engine, *language, writing.write);
  session.set_system(system);
  const bool terminal = isatty(0) && isatty(1);
  if (terminal) fmt::print("{}; /help lists the commands\n", language->spec().architecture);
  while (const auto line = read_message(terminal)) {
    if (line->empty()) continue;
    if (*line == "/quit" || *line == "/exit") break;
    if (line->starts_with('/')) {
      const auto told = session.command(*line);
      if (told.ok())
        print_out(*told);
      else
        report(told.error());
      continue;
    }
    answer(session, *line, terminal, writing.write.logprobs >= 0);
  }
  return 0;
}

}  // namespace makar
