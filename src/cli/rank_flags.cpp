#include "cli/rank_flags.h"

namespace makar {

void RankFlags::declare(Options& options) {
  options.group("Search");
  options.add(
      "--rank-by", &rules,
      "with --best-of: keep the answer with the highest reward: quality=DIR (see makar reward "
      "quality), model=DIR, regex=PATTERN, length=BYTES or program=COMMAND; add ,weight=X to weight it; "
      "repeat to sum several",
      "RULE");
  options.add("--allow-programs", &allow_programs,
              "allow --rank-by program=COMMAND; it runs with your permissions");
}

Status RankFlags::check(const GenerationFlags& flags) const {
  if (rules.empty()) return Done{};
  if (flags.generation.best_of < 2)
    return error_at("--rank-by", "ranks several answers; set --best-of to their number");
  for (const std::string& rule : rules) MAKAR_RETURN_IF_ERROR(parse_reward_term(rule));
  return Done{};
}

Status RankFlags::open(Device& device, TextGenerationOptions& generation) {
  if (rules.empty()) return Done{};
  PolicyRun options;
  options.rewards = rules, options.allow_programs = allow_programs, options.common.quiet = true;
  parts_ = std::make_unique<PolicyParts>();
  MAKAR_RETURN_IF_ERROR(open_rewards(options, *parts_, device));
  generation.rank = [this, &device](const Json& prompt,
                                    const std::vector<std::string>& texts) -> Result<std::vector<double>> {
    const Json record = Json::object();
    std::vector<RewardInput> answers;
    for (const std::string& text : texts) answers.push_back({record, prompt, text});
    std::vector<double> out(texts.size(), 0.0);
    for (const RewardTerm& term : parts_->rewards) {
      MAKAR_TRY(const std::vector<double> scores, term.score(answers, device));
      for (size_t i = 0; i < out.size(); ++i) out[i] += term.weight * scores[i];
    }
    return out;
  };
  return Done{};
}

}  // namespace makar
