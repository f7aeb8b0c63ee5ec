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
  options.run_code = true;  // refused below: the tests are in a record
  parts_ = std::make_unique<PolicyParts>();
  MAKAR_RETURN_IF_ERROR(open_rewards(options, *parts_, device));
  for (const RewardTerm& term : parts_->rewards)
    if (term.check_record && !term.check_record(Json::object()).ok())
      return error_at("--rank-by", "{} compares answers with the record of a prompt, and here is none",
                      term.name);
  generation.rank = [this, &device](const Json& prompt,
                                    const std::vector<std::string>& texts) -> Result<std::vector<double>> {
    const Json record = Json::object();
    std::vector<RewardInput> answers;
    for (const std::string& text : texts) answers.push_back({record, prompt, text});
    MAKAR_TRY(SummedRewards out, sum_rewards(parts_->rewards, answers, device));
    return std::move(out.rewards);
  };
  return Done{};
}

}  // namespace makar
