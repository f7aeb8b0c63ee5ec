// Search over the instruction and the examples of a prompt against a metric.
#include <algorithm>
#include <numeric>

#include "apps/prompt.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/rng.h"
#include "metrics/squad.h"
#include "metrics/words.h"

namespace makar {

Result<double> score_output(const std::string& metric, const std::string& output,
                            const std::string& expected) {
  if (metric == "exact") return squad_exact(output, expected) ? 1.0 : 0.0;
  if (metric == "f1") return squad_f1(output, expected);
  if (metric == "contains") return lowered(output).find(lowered(expected)) == std::string::npos ? 0.0 : 1.0;
  const std::vector<std::string> known = {"exact", "contains", "f1"};
  return error_at("--metric", "unknown {}{}; expected one of: {}", quote(metric), did_you_mean(metric, known),
                  fmt::join(known, ", "));
}

namespace {

std::string expected_of(const Json& record) {
  const auto found = record.find("output");
  if (found == record.end()) return {};
  return found->is_string() ? found->get<std::string>() : dump(*found);
}

class Tuner {
 public:
  Tuner(PromptProgram program, const std::vector<Json>& records, const PromptModel& model,
        const TuneOptions& options)
      : program_(std::move(program)), records_(records), model_(model), options_(options) {}

  Prompt& prompt() { return program_.prompts.back(); }

  // The mean score of the current program. A record is never an example in its own prompt.
  Result<double> score() {
    const std::vector<Json> examples = prompt().examples;
    double sum = 0;
    for (const Json& record : records_) {
      prompt().examples = examples;
      std::erase(prompt().examples, record);
      Json fields = record;
      fields.erase("output");
      auto run = run_prompt(program_, fields, model_, options_.seed);
      if (!run.ok()) return run.error();
      MAKAR_TRY(const double one, score_output(options_.metric, run->output, expected_of(record)));
      sum += one;
    }
    prompt().examples = examples;
    return sum / static_cast<double>(records_.size());
  }

 private:
  PromptProgram program_;
  const std::vector<Json>& records_;
  const PromptModel& model_;
  const TuneOptions& options_;
};

// `count` different records of the pool.
std::vector<Json> draw_examples(const std::vector<Json>& pool, size_t count, uint64_t seed, uint64_t trial) {
  std::vector<size_t> order(pool.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const Rng random(seed, Purpose::kShuffle, trial + 1);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return random.uniform_double(a) < random.uniform_double(b); });
  std::vector<Json> out;
  for (size_t i = 0; i < std::min(count, order.size()); ++i) out.push_back(pool[order[i]]);
  return out;
}

}  // namespace

Result<TuneResult> tune_prompt(const PromptProgram& program, const std::vector<Json>& pool,
                               const std::vector<Json>& records, const PromptModel& model,
                               const TuneOptions& options) {
  if (records.empty()) return error_at("records", "there are none to score; give at least one");
  Tuner tuner(program, records, model, options);
  const size_t trials = pool.empty() ? 0 : static_cast<size_t>(options.trials);
  const size_t all = 1 + options.instructions.size() + trials;
  TuneResult out;
  MAKAR_TRY(out.before, tuner.score());
  out.after = out.before;
  out.instruction = tuner.prompt().instruction.source(), out.examples = tuner.prompt().examples;
  out.tried.emplace_back("unchanged", out.before);
  const auto progress = [&] {
    if (options.on_progress) options.on_progress(out.tried.size(), all, out.after);
  };
  progress();
  // First the instruction, then the examples with the best instruction.
  for (const std::string& text : options.instructions) {
    MAKAR_TRY(tuner.prompt().instruction, FieldTemplate::parse(text, "instruction"));
    MAKAR_TRY(const double score, tuner.score());
    out.tried.emplace_back("instruction: " + text, score);
    if (score > out.after) out.after = score, out.instruction = text;
    progress();
  }
  MAKAR_TRY(tuner.prompt().instruction, FieldTemplate::parse(out.instruction, "instruction"));
  if (trials > 0 && tuner.prompt().example.empty())
    return error_at(program.place, "'example' is missing: the template of one example");
  for (size_t i = 0; i < trials; ++i) {
    tuner.prompt().examples = draw_examples(pool, static_cast<size_t>(options.shots), options.seed, i);
    tuner.prompt().shots = options.shots;
    MAKAR_TRY(const double score, tuner.score());
    out.tried.emplace_back(fmt::format("examples, draw {}", i + 1), score);
    if (score > out.after) out.after = score, out.examples = tuner.prompt().examples;
    progress();
  }
  return out;
}

}  // namespace makar
