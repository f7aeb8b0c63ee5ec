// Finds options that were given but have no effect, from a table of what each option requires.
#include <algorithm>

#include "cli/generation_flags.h"

namespace makar {
namespace {

struct Requirement {
  const char* flags;  // separated by spaces
  bool (*met)(const GenerationFlags&);
  const char* reason;
};

bool samples(const GenerationFlags& o) {
  return o.generation.sampler.temperature > 0 && o.generation.beams == 1 && o.generation.penalty_alpha == 0;
}
bool searches_beams(const GenerationFlags& o) { return o.generation.beams > 1; }
bool speculates(const GenerationFlags& o) {
  return !o.speculation.draft.empty() || o.speculation.speculation.lookup;
}

constexpr Requirement kRequirements[] = {
    {"--temperature", [](const GenerationFlags& o) { return o.generation.beams == 1; },
     "beam search does not sample; set --beams 1"},
    {"--temperature", [](const GenerationFlags& o) { return o.generation.penalty_alpha == 0; },
     "contrastive search does not sample"},
    {"--top-k", [](const GenerationFlags& o) { return samples(o) || o.generation.penalty_alpha > 0; },
     "nothing is sampled; set --temperature without --beams, or --penalty-alpha"},
    {"--top-p --min-p --typical-p --epsilon-cutoff --eta-cutoff --xtc-probability --mirostat --seed", samples,
     "nothing is sampled; set --temperature, and neither --beams nor --penalty-alpha"},
    {"--xtc-threshold", [](const GenerationFlags& o) { return o.generation.sampler.xtc_probability > 0; },
     "XTC is off; set --xtc-probability"},
    {"--mirostat-tau --mirostat-eta",
     [](const GenerationFlags& o) { return o.generation.sampler.mirostat > 0; },
     "mirostat is off; set --mirostat"},
    {"--dry-base --dry-allowed-length --dry-penalty-last-n",
     [](const GenerationFlags& o) { return o.generation.sampler.dry_multiplier > 0; },
     "DRY is off; set --dry-multiplier"},
    {"--repeat-last-n",
     [](const GenerationFlags& o) {
       const SamplerOptions& s = o.generation.sampler;
       return s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0;
     },
     "no penalty is set; set --repetition-penalty, --presence-penalty or --frequency-penalty"},
    {"--length-penalty --early-stopping --beam-groups", searches_beams,
     "there is no beam search; set --beams"},
    {"--mbr-metric --mbr-model", [](const GenerationFlags& o) { return o.generation.mbr > 0; },
     "minimum Bayes risk is off; set --mbr"},
    {"--draft-max", speculates, "nothing is drafted; set --model-draft or --lookup"},
    {"--model-draft --lookup",
     [](const GenerationFlags& o) { return o.generation.beams == 1 && o.generation.penalty_alpha == 0; },
     "beam search and contrastive search are not speculative"},
    {"--sinks", [](const GenerationFlags& o) { return o.engine.policy == "sinks"; },
     "set --context-policy sinks"},
};

}  // namespace

std::vector<std::string> ineffective_options(const Options& options, const GenerationFlags& flags) {
  std::vector<std::string> out, reported;
  for (const Requirement& requirement : kRequirements) {
    if (requirement.met(flags)) continue;
    std::string_view rest = requirement.flags;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string flag(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (!options.given(flag) || std::find(reported.begin(), reported.end(), flag) != reported.end())
        continue;
      reported.push_back(flag);
      out.push_back(fmt::format("{} has no effect: {}", flag, requirement.reason));
    }
  }
  return out;
}

}  // namespace makar
