// --rank-by: keep the sampled answer with the highest reward, instead of the most probable one.
#pragma once
#include "cli/generation_flags.h"
#include "cli/policy_run.h"

namespace makar {

struct RankFlags {
  std::vector<std::string> rules;
  bool allow_programs = false;
  void declare(Options& options);
  Status check(const GenerationFlags& flags) const;
  // Loads the models of the rules; `generation` ranks with them. This object must outlive it.
  Status open(Device& device, TextGenerationOptions& generation);

 private:
  std::unique_ptr<PolicyParts> parts_;
};

}  // namespace makar
