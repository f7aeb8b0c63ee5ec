// makar chat: a conversation in the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <random>

#include "cli/chat_session.h"
#include "cli/generation_flags.h"
#include "cli/interrupts.h"
#include "cli/line_editor.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "cli/text_io.h"

namespace makar {
namespace {

// Messages typed in the line editor, or read line by line if input or output is not a terminal.
class MessageReader {
 public:
  // `interrupts`: those of the terminal; null if input or output is not a terminal.
  explicit MessageReader(Interrupts* interrupts) {
    if (interrupts) editor_.emplace(*interrupts);
  }
  // A line that ends in a backslash continues on the next one. nullopt at the end of input.
  std::optional<std::string> next() {
    auto message = line("> ");
    while (message && message->ends_with('\\')) {
      const auto continuation = line(". ");
      message->back() = '\n';
      if (!continuation) break;
      *message += *continuation;
    }
    return message;
  }

 private:
  std::optional<std::string> line(const char* prompt) {
    if (editor_) return editor_->read(prompt);
    std::string text;
    if (!std::getline(std::cin, text)) return std::nullopt;
    return text;
  }
  std::optional<LineEditor> editor_;
};

// Prints the answer to a message. Ctrl-C stops it. With `alternatives`, the alternatives of each token
// follow.
void answer(ChatSession& session, const LanguageModel& language, const std::string& message,
            Interrupts* terminal_interrupts, bool alternatives) {
  bool has_text = false;
  std::optional<Interrupts> pipe_interrupts;
  Interrupts& interrupts = terminal_interrupts ? *terminal_interrupts : pipe_interrupts.emplace();
  const Status status = session.send(message, [&](const std::string& text) {
    has_text = has_text || !text.empty();
    return print_out(text) && !interrupts.pending();
  });
  if (!status.ok()) {
    if (has_text) print_out("\n");
    report(status.error());
    return;
  }
  print_out("\n");
  fmt::print(stderr, "{}", session.ending());
  if (const std::string why = explain_empty(session.last(), language, true); !why.empty())
    fmt::print(stderr, "makar: {}\n", why);
  if (alternatives) print_out(session.why());
  if (terminal_interrupts) print_out("\n");
}

void print_welcome(const std::string& path, const LanguageModel& language, const EngineOptions& engine) {
  const int64_t context = context_size(language.spec(), engine.context);
  const double millions = static_cast<double>(language.model().parameters().count()) * 1e-6;
  fmt::print("{} ({}, {:.{}f}M parameters{}); /help lists the commands\n", model_name(path),
             language.spec().architecture, millions, millions < 10 ? 1 : 0,
             context > 0 ? fmt::format(", context {}", context) : "");
}

}  // namespace

int run_chat(const std::vector<std::string>& arguments) {
  ModelOptions model;
  GenerationFlags flags;
  flags.generation.max_new_tokens = 1024;
  flags.generation.sampler.temperature = 0.7, flags.generation.sampler.top_p = 0.95;
  std::string system;
  Options options("chat", "Chat with a model that has a chat template.", "makar chat MODEL");
  model.declare_optional(options, "MODEL");
  model.declare_device(options);
  model.declare_chat(options);
  options.add("--system", &system, "system message", "TEXT");
  flags.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status status = model.use_default(); !status.ok()) return report(status.error()), 2;
  if (flags.generation.answers != 1)
    return report(error_at("--answers",
                           "chat generates one answer per message; use makar generate for several")),
           2;
  if (const Status status = flags.check(options); !status.ok()) return report(status.error()), 2;
  if (!options.given("--seed")) flags.generation.sampler.seed = std::random_device()();
  const auto opened = open_on_device(model, flags.engine);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->spec().decoder || !language->chat_template())
    return report(error_of(Error::Kind::kUnsupported, model.model,
                           "{} has no chat template; give one with --chat-template, or continue text with "
                           "makar generate",
                           language->spec().architecture));
  if (const Status status = flags.prepare(*language, device); !status.ok()) return report(status.error());
  const auto engine_options = flags.engine_options(language->model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  Engine engine(language->model(), device, *engine_options);
  ChatSession session(engine, *language, flags.generation);
  session.set_system(system);
  const bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  if (terminal) print_welcome(model.model, *language, *engine_options);
  const bool alternatives = flags.generation.logprobs >= 0;
  std::optional<Interrupts> interrupts;
  if (terminal) interrupts.emplace();
  Interrupts* const terminal_interrupts = interrupts ? &*interrupts : nullptr;
  MessageReader reader(terminal_interrupts);
  while (const auto line = reader.next()) {
    if (line->empty()) continue;
    if (*line == "/quit" || *line == "/exit") break;
    if (!line->starts_with('/')) {
      answer(session, *language, *line, terminal_interrupts, alternatives);
      continue;
    }
    const auto output = session.command(*line);
    if (!output.ok()) {
      report(output.error());
      continue;
    }
    print_out(*output);
    if (const std::string waiting = *line == "/forget" ? session.take_waiting() : ""; !waiting.empty())
      answer(session, *language, waiting, terminal_interrupts, alternatives);
  }
  return 0;
}

}  // namespace makar
