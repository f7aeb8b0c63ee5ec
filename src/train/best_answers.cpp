#include "train/best_answers.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "data/ranked_record.h"

namespace makar {
namespace {

constexpr std::pair<const char*, BestForm> kForms[] = {
    {"best", BestForm::kBest}, {"pairs", BestForm::kPairs}, {"ranked", BestForm::kRanked}};

Json assistant(const std::string& text) { return {{"role", "assistant"}, {"content", text}}; }

// Leaves out repeated and empty answers, and truncated ones that may not be in a record; best first.
void sort_usable(std::vector<RewardedAnswer>& answers, BestForm form) {
  std::stable_partition(answers.begin(), answers.end(), [](const RewardedAnswer& a) { return a.finished; });
  std::set<std::string> seen;
  std::erase_if(answers,
                [&](const RewardedAnswer& a) { return a.text.empty() || !seen.insert(a.text).second; });
  std::stable_sort(answers.begin(), answers.end(),
                   [](const RewardedAnswer& a, const RewardedAnswer& b) { return a.reward > b.reward; });
  double worst_finished = -INFINITY;  // without a finished answer, nothing is usable
  for (const RewardedAnswer& a : answers)
    if (a.finished) worst_finished = a.reward;
  std::erase_if(answers, [&](const RewardedAnswer& a) {
    return !a.finished && (form == BestForm::kBest || a.reward >= worst_finished);
  });
}

}  // namespace

std::optional<BestForm> best_form_named(const std::string& name) {
  for (const auto& [known, form] : kForms)
    if (name == known) return form;
  return std::nullopt;
}

std::vector<std::string> best_form_names() {
  std::vector<std::string> out;
  for (const auto& row : kForms) out.emplace_back(row.first);
  return out;
}

std::vector<Json> best_records(const Json& prompt, std::vector<RewardedAnswer> answers,
                               const BestOptions& o) {
  sort_usable(answers, o.form);
  std::vector<Json> out;
  if (answers.empty()) return out;
  const bool enough = !o.min_reward || answers.front().reward >= *o.min_reward;
  if (o.form == BestForm::kBest) {
    for (size_t i = 0; i < answers.size() && static_cast<int64_t>(i) < o.keep; ++i) {
      if (o.min_reward && answers[i].reward < *o.min_reward) break;
      Json turns = prompt;
      turns.push_back(assistant(answers[i].text));
      out.push_back({{"messages", std::move(turns)}, {"reward", answers[i].reward}});
    }
    return out;
  }
  const RewardedAnswer &best = answers.front(), &worst = answers.back();
  if (!enough || best.reward <= worst.reward) return out;
  if (o.form == BestForm::kPairs) {
    out.push_back({{"prompt", prompt},
                   {"chosen", best.text},
                   {"rejected", worst.text},
                   {"rewards", {best.reward, worst.reward}}});
    return out;
  }
  Json texts = Json::array(), ranks = Json::array(), rewards = Json::array();
  int64_t rank = 0;
  for (size_t i = 0; i < answers.size() && i < RankedRecord::kMaxAnswers; ++i) {
    if (i > 0 && answers[i].reward < answers[i - 1].reward) ++rank;
    texts.push_back(answers[i].text), ranks.push_back(rank), rewards.push_back(answers[i].reward);
  }
  if (rank == 0) return out;
  out.push_back({{"prompt", prompt}, {"answers", texts}, {"ranks", ranks}, {"rewards", rewards}});
  return out;
}

}  // namespace makar
