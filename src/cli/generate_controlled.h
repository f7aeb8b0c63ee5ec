// makar generate --control: an answer kept below a threshold of toxicity.
#pragma once
#include "base/options.h"
#include "eval/controlled.h"
#include "llm/text_generation.h"

namespace makar {

struct ControlFlags {
  ControlOptions control;
  std::string classifier;
  std::vector<std::string> benign;
  void declare(Options& options);
  Status check() const;  // an error is bad usage (exit code 2)
  bool on() const { return control.mode != "none"; }
};

// Prints the answer to `prompt`, with a warning if all attempts were rejected; returns the exit code.
int run_controlled(Engine& engine, const LanguageModel& language, const std::string& prompt, bool chat,
                   bool json, const ControlFlags& flags, const TextGenerationOptions& options);

}  // namespace makar
