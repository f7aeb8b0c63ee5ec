#include "eval/judge.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "metrics/agreement.h"
#include "metrics/resample.h"
#include "metrics/words.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr int64_t kMaxStepsTokens = 200;

Json user_message(const std::string& text) {
  return Json::array({{{"role", "user"}, {"content", to_valid_utf8(text)}}});
}

LikelihoodRequest verdict_request(const std::string& prompt, const std::string& explanation,
                                  const std::string& verdict, bool chat) {
  if (!chat)
    return {prompt + (explanation.empty() ? "" : "\nExplanation: " + explanation) + "\nVerdict:",
            " " + verdict};
  LikelihoodRequest out{"", verdict, user_message(prompt)};
  if (!explanation.empty()) {
    out.messages.push_back({{"role", "assistant"}, {"content", to_valid_utf8(explanation)}});
    out.messages.push_back({{"role", "user"}, {"content", "State only your verdict."}});
  }
  return out;
}

Result<std::vector<std::string>> explain(EvalModel& judge, std::span<const std::string> prompts,
                                         const JudgeOptions& o) {
  std::vector<std::string> out(prompts.size());
  if (o.explain == 0) return out;
  std::vector<UntilRequest> requests;
  for (const std::string& prompt : prompts) {
    UntilRequest request;
    request.prompt = prompt + "\nExplanation:";
    request.until = {"\n\n"}, request.max_tokens = o.explain, request.seed = o.seed;
    if (o.chat)
      request.messages = user_message(prompt + "\nFirst explain your judgement in a few sentences.");
    requests.push_back(std::move(request));
  }
  const auto answers = judge.generate_until(requests);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) return answers[i].error();
    out[i] = without_end_blanks(*answers[i]);
  }
  return out;
}

std::string pair_prompt(const JudgedItem& item, bool swapped, const JudgeOptions& o) {
  std::string out = fmt::format(
      "Two assistants answered a question. Compare their answers by {}. The order of the answers and their "
      "length do not matter.\n\n[Question]\n{}\n\n",
      o.criteria, item.question);
  if (!item.reference.empty()) out += "[Reference answer]\n" + item.reference + "\n\n";
  out += "[Answer A]\n" + (swapped ? item.other : item.answer) + "\n\n[Answer B]\n" +
         (swapped ? item.answer : item.other) +
         "\n\nWhich answer is better? Reply A, B, or C if they are equally good.";
  return out;
}

// The index of the verdict: the most probable one, or a sampled one if there are several seeds.
size_t choose(const std::vector<double>& p, const JudgeOptions& o, int64_t seed, uint64_t item) {
  if (o.seeds <= 1) return static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
  const Rng rng(o.seed + static_cast<uint64_t>(seed), Purpose::kSample, item);
  double remaining = rng.uniform_double(0);
  for (size_t i = 0; i + 1 < p.size(); ++i) {
    if (remaining < p[i]) return i;
    remaining -= p[i];
  }
  return p.size() - 1;
}

std::string score_prompt(const JudgedItem& item, const std::string& steps, const JudgeOptions& o) {
  std::string out = fmt::format("Rate the answer to a question by {}, from {} (worst) to {} (best).\n\n",
                                o.criteria, o.low, o.high);
  if (!o.rubric.empty()) out += "[Rubric]\n" + o.rubric + "\n\n";
  if (!steps.empty()) out += "[Steps]\n" + steps + "\n\n";
  out += "[Question]\n" + item.question + "\n\n";
  if (!item.reference.empty()) out += "[Reference answer]\n" + item.reference + "\n\n";
  return out + fmt::format("[Answer]\n{}\n\nReply with a number from {} to {}.", item.answer, o.low, o.high);
}

Result<std::string> write_steps(EvalModel& judge, const JudgeOptions& o) {
  const std::string prompt = fmt::format(
      "Write short numbered steps that a reader follows to rate an answer to a question by {}.", o.criteria);
  UntilRequest request;
  request.prompt = prompt + "\n1.", request.until = {"\n\n"}, request.max_tokens = kMaxStepsTokens,
  request.seed = o.seed;
  if (o.chat) request.messages = user_message(prompt);
  const auto answers = judge.generate_until(std::span(&request, 1));
  if (!answers[0].ok()) return answers[0].error();
  return (o.chat ? "" : "1.") + without_end_blanks(*answers[0]);
}

Json interval_json(const Evaluation& evaluation) {
  const auto interval = bootstrap_interval(evaluation, {});
  return interval ? Json{{"low", interval->low}, {"high", interval->high}, {"level", 0.95}} : Json();
}

}  // namespace

Result<std::vector<std::vector<double>>> verdict_probabilities(EvalModel& judge,
                                                               const std::vector<std::string>& prompts,
                                                               const std::vector<std::string>& verdicts,
                                                               const JudgeOptions& o) {
  std::vector<std::vector<double>> out;
  for (size_t begin = 0; begin < prompts.size(); begin += o.batch) {
    const std::span<const std::string> batch(prompts.data() + begin,
                                             std::min(o.batch, prompts.size() - begin));
    MAKAR_TRY(const auto explanations, explain(judge, batch, o));
    std::vector<LikelihoodRequest> requests;
    for (size_t i = 0; i < batch.size(); ++i)
      for (const std::string& verdict : verdicts)
        requests.push_back(verdict_request(batch[i], explanations[i], verdict, o.chat));
    const auto answers = judge.loglikelihood(requests);
    for (size_t i = 0; i < answers.size(); i += verdicts.size()) {
      std::vector<double> p;
      double max = -INFINITY, sum = 0;
      for (size_t v = 0; v < verdicts.size(); ++v) {
        if (!answers[i + v].ok())
          return answers[i + v].error().in(fmt::format("item {}", begin + i / verdicts.size()));
        max = std::max(max, p.emplace_back(answers[i + v]->logprob));
      }
      for (double& one : p) sum += one = std::exp(one - max);
      for (double& one : p) one /= sum;
      out.push_back(std::move(p));
    }
    if (o.progress) o.progress(out.size(), prompts.size());
  }
  return out;
}

Result<std::vector<PairVerdict>> judge_pairs(EvalModel& judge, const std::vector<JudgedItem>& items,
                                             const JudgeOptions& o) {
  std::vector<std::string> prompts;
  for (const JudgedItem& item : items)
    prompts.push_back(pair_prompt(item, false, o)), prompts.push_back(pair_prompt(item, true, o));
  MAKAR_TRY(const auto p, verdict_probabilities(judge, prompts, {"A", "B", "C"}, o));
  std::vector<PairVerdict> out;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto &in_order = p[2 * i], &swapped = p[2 * i + 1];
    PairVerdict verdict;
    verdict.first_position = (in_order[0] + swapped[0]) / 2;
    verdict.preference = (in_order[0] + in_order[2] / 2 + swapped[1] + swapped[2] / 2) / 2;
    for (int64_t s = 0; s < std::max<int64_t>(1, o.seeds); ++s) {
      // 1: the first answer, -1: the second, 0: equal.
      constexpr int kInOrder[] = {1, -1, 0}, kSwapped[] = {-1, 1, 0};
      const int a = kInOrder[choose(in_order, o, s, 2 * i)], b = kSwapped[choose(swapped, o, s, 2 * i + 1)];
      verdict.flipped.push_back(a * b < 0);
      const int sum = a + b;
      verdict.outcomes.emplace_back(a * b < 0 || sum == 0 ? "tie" : sum > 0 ? "win" : "loss");
    }
    out.push_back(std::move(verdict));
  }
  return out;
}

Result<Json> pairs_report(const std::vector<PairVerdict>& verdicts) {
  std::vector<std::string> outcomes;
  double flips = 0, first = 0, stable = 0;
  Json items = Json::array();
  for (const PairVerdict& one : verdicts) {
    outcomes.insert(outcomes.end(), one.outcomes.begin(), one.outcomes.end());
    flips += static_cast<double>(std::count(one.flipped.begin(), one.flipped.end(), true));
    first += one.first_position;
    stable += std::equal(one.outcomes.begin() + 1, one.outcomes.end(), one.outcomes.begin()) ? 1 : 0;
    items.push_back({{"outcomes", one.outcomes}, {"flipped", one.flipped}, {"preference", one.preference}});
  }
  MAKAR_TRY(const Evaluation rate, evaluate_win_rate(outcomes));
  const auto count = static_cast<double>(verdicts.size());
  const auto count_of = [&](const char* word) { return std::count(outcomes.begin(), outcomes.end(), word); };
  return Json{{"win", count_of("win")},
              {"tie", count_of("tie")},
              {"loss", count_of("loss")},
              {"win_rate", rate.score},
              {"interval", interval_json(rate)},
              {"flip_rate", flips / static_cast<double>(outcomes.size())},
              {"first_position", first / count},
              {"same_for_all_seeds", stable / count},
              {"items", items}};
}

Result<JudgedScores> judge_scores(EvalModel& judge, const std::vector<JudgedItem>& items,
                                  const JudgeOptions& o) {
  JudgedScores out;
  if (o.steps) {
    MAKAR_TRY(out.steps, write_steps(judge, o));
  }
  std::vector<std::string> prompts, verdicts;
  for (const JudgedItem& item : items) prompts.push_back(score_prompt(item, out.steps, o));
  for (int64_t score = o.low; score <= o.high; ++score) verdicts.push_back(std::to_string(score));
  MAKAR_TRY(auto p, verdict_probabilities(judge, prompts, verdicts, o));
  for (auto& one : p) {
    ScoreVerdict verdict;
    for (size_t i = 0; i < one.size(); ++i)
      verdict.score += one[i] * static_cast<double>(o.low + static_cast<int64_t>(i));
    verdict.probabilities = std::move(one);
    out.scores.push_back(std::move(verdict));
  }
  return out;
}

Result<Json> scores_report(const JudgedScores& judged, const JudgeOptions& o) {
  std::vector<double> scores;
  Json items = Json::array();
  for (const ScoreVerdict& one : judged.scores) {
    scores.push_back(one.score);
    items.push_back({{"score", one.score}, {"probabilities", one.probabilities}});
  }
  const Evaluation mean = evaluation_of_mean("score", "", scores);
  Json out = {{"score", mean.score},
              {"low", o.low},
              {"high", o.high},
              {"interval", interval_json(mean)},
              {"items", items}};
  if (!judged.steps.empty()) out["steps"] = judged.steps;
  return out;
}

}  // namespace makar
