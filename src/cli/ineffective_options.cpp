// Finds options that were given but have no effect, from a table of what each option requires.
#include <algorithm>

#include "cli/model_options.h"

namespace makar {
namespace {

struct Need {
  const char* flags;  // separated by spaces
  bool (*met)(const WritingOptions&);
  const char* reason;
};

bool samples(const WritingOptions& o) {
  return o.write.sampler.temperature > 0 && o.write.beams == 1 && o.write.penalty_alpha == 0;
}
bool searches_beams(const WritingOptions& o) { return o.write.beams > 1; }
bool speculates(const WritingOptions& o) {
  return !o.speculation.draft.empty() || o.speculation.speculation.lookup;
}

constexpr Need kNeeds[] = {
    {"--temperature", [](const WritingOptions& o) { return o.write.beams == 1; },
     "beam search does not sample; set --beams 1"},
    {"--temperature", [](const WritingOptions& o) { return o.write.penalty_alpha == 0; },
     "contrastive search does not sample"},
    {"--top-k", [](const WritingOptions& o) { return samples(o) || o.write.penalty_alpha > 0; },
     "nothing is sampled; set --temperature"},
    {"--top-p --min-p --typical-p --epsilon-cutoff --eta-cutoff --xtc-probability --mirostat --seed", samples,
     "nothing is sampled; set --temperature"},
    {"--xtc-threshold", [](const WritingOptions& o) { return o.write.sampler.xtc_probability > 0; },
     "XTC is off; set --xtc-probability"},
    {"--mirostat-tau --mirostat-eta", [](const WritingOptions& o) { return o.write.sampler.mirostat > 0; },
     "mirostat is off; set --mirostat"},
    {"--dry-base --dry-allowed-length --dry-penalty-last-n",
     [](const WritingOptions& o) { return o.write.sampler.dry_multiplier > 0; },
     "DRY is off; set --dry-multiplier"},
    {"--repeat-last-n",
     [](const WritingOptions& o) {
       const SamplerOptions& s = o.write.sampler;
       return s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0;
     },
     "no penalty is set; set --repetition-penalty, --presence-penalty or --frequency-penalty"},
    {"--length-penalty --early-stopping --beam-groups", searches_beams,
     "there is no beam search; set --beams"},
    {"--mbr-metric --mbr-model", [](const WritingOptions& o) { return o.write.mbr > 0; },
     "minimum Bayes risk is off; set --mbr"},
    {"--draft-max", speculates, "nothing is drafted; set --model-draft or --lookup"},
    {"--model-draft --lookup",
     [](const WritingOptions& o) { return o.write.beams == 1 && o.write.penalty_alpha == 0; },
     "beam search and contrastive search are not speculative"},
    {"--sinks", [](const WritingOptions& o) { return o.engine.policy == "sinks"; },
     "set --context-policy sinks"},
};

}  // namespace

std::vector<std::string> ineffective_options(const Options& options, const WritingOptions& writing) {
  std::vector<std::string> out, named;
  for (const Need& need : kNeeds) {
    if (need.met(writing)) continue;
    std::string_view rest = need.flags;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string flag(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (!options.given(flag) || std::find(named.begin(), named.end(), flag) != named.end()) continue;
      named.push_back(flag);
      out.push_back(fmt::format("{} has no effect: {}", flag, need.reason));
    }
  }
  return out;
}

}  // namespace makar
