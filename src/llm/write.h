// A request in text through the engine.
#pragma once
#include <functional>

#include "infer/generate.h"
#include "llm/language_model.h"

namespace makar {

struct WriteOptions {
  int64_t max_new_tokens = 256;
  SamplerOptions sampler;
  int64_t answers = 1, beams = 1, logprobs = -1;
  double length_penalty = 1.0;
  std::vector<std::string> stop;     // strings that end the text; they are not part of it
  bool fit = false;                  // fewer new tokens where the context has no room, instead of an error
  std::shared_ptr<Drafter> drafter;  // guesses by another model
  int64_t draft_tokens = 4;
  bool lookup = false;        // guesses by prompt look-up
  bool keep_special = false;  // control tokens are shown
  std::shared_ptr<Constraint> constraint;
  std::function<bool(int64_t answer, const std::string& text)> on_text;  // false ends that answer
};

struct WrittenText {
  std::string text;
  std::vector<Written> tokens;
  Finish finish = Finish::kNone;
  double score = 0;  // of beams
};

struct WriteResult {
  std::vector<WrittenText> answers;
  int64_t prompt_tokens = 0, steps = 0, guessed = 0, accepted = 0;
};

// Runs until this request is answered; the engine may hold others.
Result<WriteResult> write_text(Engine& engine, const LanguageModel& language,
                               const std::vector<int64_t>& prompt, const WriteOptions& options);

const char* name(Finish finish);  // "stop", "length"

}  // namespace makar
