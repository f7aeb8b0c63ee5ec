// makar score and makar perplexity: log-probabilities of texts.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "base/progress.h"
#include "cli/generation_flags.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "llm/loglikelihood.h"

namespace makar {
namespace {

struct ScoreCommand {
  ModelOptions model;
  EngineFlags engine;
  std::vector<std::string> files;
  std::string prompt, completion;
  int64_t top = 0, stride = 0;
  bool json = false, jsonl = false, summary = false;
};

constexpr size_t kMinProgressLength = 1000;  // in bytes or tokens; shorter texts get no progress line

Json totals_json(const Loglikelihood& totals) {
  return {{"logprob", totals.logprob},
          {"tokens", totals.tokens},
          {"perplexity", totals.perplexity()},
          {"is_greedy", totals.is_greedy},
          {"windows", totals.windows}};
}

// Scores texts in one batch; the results as JSON, in order.
std::vector<Result<Json>> score_all(Engine& engine, const LanguageModel& language,
                                    const std::vector<ContextAndContinuation>& texts, const ScoreCommand& c) {
  size_t bytes = 0;
  for (const auto& text : texts) bytes += text.continuation.size();
  Progress progress(c.jsonl || bytes < kMinProgressLength);
  std::vector<Json> tokens(texts.size(), Json::array());
  uint64_t done = 0;
  LoglikelihoodOptions o{c.stride, c.top, [&](size_t text, int64_t id, const Logprobs& score) {
                           if (!c.summary)
                             tokens[text].push_back(token_json({id, score}, language.tokenizer()));
                           progress.show("scoring", ++done, 0);
                           return true;
                         }};
  std::vector<Result<Json>> out;
  for (const auto& totals : loglikelihood(engine, language, texts, o)) {
    const size_t i = out.size();
    if (!totals.ok()) {
      out.emplace_back(totals.error());
      continue;
    }
    Json json = totals_json(*totals);
    if (!c.summary) json["token_logprobs"] = std::move(tokens[i]);
    out.emplace_back(std::move(json));
  }
  return out;
}

// "   -0.1234  \" Paris\"   | \" Lyon\" -2.31  \" Nice\" -3.40"
std::string token_line(const GeneratedToken& token, const Tokenizer& tokenizer) {
  const Json json = token_json(token, tokenizer);
  std::string line = fmt::format("{:10.4f}  {}", json["logprob"].get<double>(), dump(json["token"]));
  bool first = true;
  for (const Json& other : json["top"]) {
    line += fmt::format("{}{} {:.4f}", first ? "   | " : "  ", dump(other["token"]),
                        other["logprob"].get<double>());
    first = false;
  }
  return line + "\n";
}

// One line per token as it is scored, then the total.
int print_scores(Engine& engine, const LanguageModel& language, const ScoreCommand& c) {
  const auto text = encode_scored(language, c.prompt, c.completion);
  if (!text.ok()) return report(text.error());
  const auto total = static_cast<uint64_t>(text->tokens.size()) - static_cast<uint64_t>(text->from);
  const auto totals = [&] {
    // Token lines on the terminal already show progress.
    Progress progress(text->tokens.size() < kMinProgressLength || (!c.summary && isatty(STDOUT_FILENO)));
    uint64_t done = 0;
    LoglikelihoodOptions o{c.stride, c.top, [&](size_t, int64_t id, const Logprobs& score) {
                             progress.show("scoring", ++done, total);
                             return c.summary || print_out(token_line({id, score}, language.tokenizer()));
                           }};
    return loglikelihood(engine, language, std::span(&*text, 1), o)[0];
  }();
  if (!totals.ok()) return report(totals.error());
  const Json json = totals_json(*totals);
  return print_out(fmt::format("{:10.4f}  over {} tokens{}, perplexity {:.4f}\n", totals->logprob,
                               totals->tokens,
                               totals->windows > 1 ? fmt::format(" in {} windows", totals->windows) : "",
                               json["perplexity"].get<double>()))
             ? 0
             : 1;
}

Result<ContextAndContinuation> read_line(const std::string& line) {
  MAKAR_TRY(const Json request, parse_json(line, "request"));
  if (!request.is_object()) return error_at("request", "expected {{\"prompt\", \"completion\"}}");
  const auto text = [&](const char* key) -> Result<std::string> {
    if (!request.contains(key)) return std::string();
    if (!request[key].is_string()) return error_at(key, "expected a string, found {}", request[key].dump());
    return request[key].get<std::string>();
  };
  ContextAndContinuation out;
  MAKAR_TRY(out.context, text("prompt"));
  MAKAR_TRY(out.continuation, text("completion"));
  return out;
}

// Scores the lines of a batch together; prints one result or error per line. False: the output is closed.
bool score_lines(Engine& engine, const LanguageModel& language, const std::vector<std::string_view>& lines,
                 size_t first, const ScoreCommand& c) {
  std::vector<ContextAndContinuation> texts;
  std::vector<Result<size_t>> index;  // per line: the index in `texts`, or the error of the line
  for (const std::string_view line : lines) {
    auto text = read_line(std::string(line));
    if (text.ok()) {
      index.emplace_back(texts.size());
      texts.push_back(std::move(*text));
    } else {
      index.emplace_back(text.error());
    }
  }
  const auto results = score_all(engine, language, texts, c);
  for (size_t i = 0; i < index.size(); ++i) {
    const Result<Json> result = index[i].ok() ? results[*index[i]] : Result<Json>(index[i].error());
    if (!print_out(result.ok() ? result->dump() + "\n" : error_line(result.error(), first + i))) return false;
  }
  return true;
}

void declare(Options& options, ScoreCommand& c) {
  c.model.declare(options);
  c.model.declare_device(options);
  options.group("Text");
  options
      .positional("FILE", &c.files,
                  "the text to score, or the lines of --jsonl; standard input if there is none")
      .required = false;
  options.add("-f --file", &c.files, "the same as the argument FILE", "FILE");
  options.add("-p --prompt", &c.prompt,
              "text before the completion, or the source text of an encoder-decoder; not scored", "TEXT");
  options.add("--completion --text", &c.completion, "the text to score", "TEXT");
  options.group("Output");
  options.add("--top", &c.top, "print this many alternatives for each token", "N");
  options.add("--summary", &c.summary, "print only the total");
  options.add("--json", &c.json, "print one JSON object");
  options.add("--jsonl", &c.jsonl,
              "read one {\"prompt\", \"completion\"} per line and print one JSON result per line");
  c.engine.declare(options);
  options.group("Limits");
  options.add("--stride", &c.stride,
              "texts longer than the context: tokens between windows; 0 for half of the context", "N");
}

int run_scores(ScoreCommand& c, const std::string& name, const std::vector<std::string>& arguments) {
  Options options(name,
                  c.summary ? "Compute the perplexity of a text of any length, in overlapping windows."
                            : "Compute log-probabilities of a completion after a prompt, or of a whole text.",
                  c.summary ? "makar perplexity -m MODEL book.txt"
                            : "makar score -m MODEL -p \"The capital of France is\" --completion \" Paris\"");
  declare(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.top < 0 || c.top > 100) return report(error_at("--top", "must be 0 to 100, got {}", c.top)), 2;
  if (c.stride < 0) return report(error_at("--stride", "must be 0 or more, got {}", c.stride)), 2;
  if (c.top > 0 && c.summary && !c.json && !c.jsonl) warn("--top has no effect: only the total is printed");
  if (!c.completion.empty() && (!c.files.empty() || c.jsonl))
    return report(error_at("--completion", "give the text once: --completion, or a file")), 2;
  if (const auto budget = c.engine.budget(); !budget.ok()) return report(budget.error()), 2;
  const auto opened = open_on_device(c.model, c.engine);
  if (!opened.ok()) return report(opened.error());
  const LanguageModel& language = opened->language;
  if (!language.spec().decoder)
    return report(error_of(Error::Kind::kUnsupported, c.model.model,
                           "scoring needs a causal or sequence-to-sequence model, this is a {}",
                           language.spec().architecture));
  if (!language.has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer"));
  const auto engine_options = c.engine.resolve(language.model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  if (engine_options->context.policy == ContextPolicy::kTruncateLeft)
    return report(error_at("--context-policy", "truncate-left drops scored tokens; use error or sinks")), 2;
  Engine engine(language.model(), *opened->device, *engine_options);
  if (c.jsonl) {
    const Status status =
        each_line_batch(c.files, [&](const std::vector<std::string_view>& lines, size_t first) {
          return score_lines(engine, language, lines, first, c);
        });
    return status.ok() ? 0 : report(status.error());
  }
  if (c.completion.empty()) {
    const auto text = read_whole(c.files);
    if (!text.ok()) return report(text.error());
    c.completion = *text;
  }
  if (!c.json) return print_scores(engine, language, c);
  const auto result = score_all(engine, language, {{c.prompt, c.completion}}, c)[0];
  if (!result.ok()) return report(result.error());
  return print_out(result->dump() + "\n"), 0;
}

}  // namespace

int run_score(const std::vector<std::string>& arguments) {
  ScoreCommand c;
  return run_scores(c, "score", arguments);
}

int run_perplexity(const std::vector<std::string>& arguments) {
  ScoreCommand c;
  c.summary = true;
  return run_scores(c, "perplexity", arguments);
}

}  // namespace makar
