// makar score: log-probabilities of texts under a model.
#include "llm/score.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"
#include "infer/score_job.h"

namespace makar {
namespace {

struct ScoreCommand {
  ModelOptions model;
  EngineFlags engine;
  std::vector<std::string> files;
  std::string prompt, completion;
  int64_t top = 0;
  bool json = false, jsonl = false;
};

Result<Json> score_pair(Engine& engine, const LanguageModel& language, const std::string& prompt,
                        const std::string& completion, int64_t top) {
  MAKAR_TRY(const ScoredText text, plan_score(language, engine.options().context, prompt, completion));
  const auto job = std::make_shared<ScoreJob>(text.tokens, text.from, top);
  engine.submit(job);
  engine.run();
  if (job->error) return *job->error;
  Json tokens = Json::array();
  bool greedy = true;
  for (size_t i = 0; i < job->scores().size(); ++i) {
    const Logprobs& l = job->scores()[i];
    greedy = greedy && l.rank == 0;
    tokens.push_back(
        written_json({text.tokens[static_cast<size_t>(text.from) + i], l}, language.tokenizer()));
  }
  const double total = job->total(), count = static_cast<double>(job->scores().size());
  return Json{{"logprob", total},
              {"tokens", static_cast<int64_t>(job->scores().size())},
              {"perplexity", std::exp(-total / count)},
              {"is_greedy", greedy},
              {"token_logprobs", std::move(tokens)}};
}

Result<Json> score_line(const std::string& line, Engine& engine, const LanguageModel& language, int64_t top) {
  MAKAR_TRY(const Json request, parse_json(line, "request"));
  if (!request.is_object()) return error_at("request", "expected {{\"prompt\", \"completion\"}}");
  const auto text = [&](const char* key) -> Result<std::string> {
    if (!request.contains(key)) return std::string();
    if (!request[key].is_string()) return error_at(key, "expected a string, found {}", request[key].dump());
    return request[key].get<std::string>();
  };
  MAKAR_TRY(const std::string prompt, text("prompt"));
  MAKAR_TRY(const std::string completion, text("completion"));
  return score_pair(engine, language, prompt, completion, top);
}

}  // namespace

int run_score(const std::vector<std::string>& arguments) {
  ScoreCommand c;
  Options options("score", "Log-probabilities of a completion after a prompt, or of a whole text.",
                  "makar score -m MODEL --prompt \"The capital of France is\" --completion \" Paris\"");
  c.model.declare(options);
  c.engine.declare(options);
  options.add("-p --prompt", &c.prompt, "what comes before; not scored", "TEXT");
  options.add("--completion", &c.completion, "the text to score", "TEXT");
  options.add("--top", &c.top, "alternatives to show with each token", "N");
  options.add("--json", &c.json, "print one JSON object");
  options.add("--jsonl", &c.jsonl, "read {\"prompt\", \"completion\"} lines, print a result a line");
  options
      .positional("FILES", &c.files, "the text to score, or the lines of --jsonl; standard input without any")
      .required = false;
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.top < 0 || c.top > 100) return report(error_at("--top", "must be 0 to 100, got {}", c.top)), 2;
  ThreadPool pool(static_cast<int>(c.model.threads));
  const auto budget = c.engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const auto language = open_model(c.model, pool, *budget);
  if (!language.ok()) return report(language.error());
  if (!language->spec().decoder || language->spec().encoder)
    return report(error_of(Error::Kind::kUnsupported, c.model.model,
                           "score reads decoder-only language models, this is a {}",
                           language->spec().architecture));
  const auto engine_options = c.engine.resolve(language->model());
  if (!engine_options.ok()) return report(engine_options.error()), 2;
  if (engine_options->context.policy == ContextPolicy::kTruncateLeft)
    return report(error_at("--context-policy", "a text is scored whole: error or sinks")), 2;
  Engine engine(language->model(), pool, *engine_options);
  if (c.jsonl) {
    const Status status = each_lines(c.files, [&](const std::vector<std::string_view>& lines, size_t first) {
      for (size_t i = 0; i < lines.size(); ++i) {
        const auto answer = score_line(std::string(lines[i]), engine, *language, c.top);
        if (!print_out(answer.ok() ? answer->dump() + "\n" : error_line(answer.error(), first + i)))
          return false;
      }
      return true;
    });
    return status.ok() ? 0 : report(status.error());
  }
  if (c.completion.empty()) {
    const auto text = read_whole(c.files);
    if (!text.ok()) return report(text.error());
    c.completion = *text;
  }
  const auto result = score_pair(engine, *language, c.prompt, c.completion, c.top);
  if (!result.ok()) return report(result.error());
  if (c.json) return print_out(result->dump() + "\n"), 0;
  for (const Json& token : (*result)["token_logprobs"])
    fmt::print("{:10.4f}  {}\n", token["logprob"].get<double>(), token["token"].dump());
  fmt::print("{:10.4f}  over {} tokens, perplexity {:.4f}\n", (*result)["logprob"].get<double>(),
             (*result)["tokens"].get<int64_t>(), (*result)["perplexity"].get<double>());
  return 0;
}

}  // namespace makar
