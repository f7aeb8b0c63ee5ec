// Runs a text request through the engine.
#pragma once
#include <functional>

#include "infer/decoding.h"
#include "infer/engine.h"
#include "llm/embed.h"
#include "llm/text_stream.h"
#include "metrics/overlap.h"

namespace makar {

// Speculative decoding: the same answer, in fewer steps if drafts are accepted.
struct Speculation {
  std::function<std::shared_ptr<Drafter>()> draft_model;  // creates a drafter for one request
  int64_t draft_tokens = 4;
  bool lookup = false;  // draft by prompt lookup if there is no draft model
};

struct TextGenerationOptions : Decoding {
  TextGenerationOptions() { max_new_tokens = 256; }
  std::vector<std::string> stop;  // strings that end the text; not part of it
  bool fit = false;               // generate fewer tokens if the context is too short, instead of an error
  Speculation speculation;
  bool keep_special = false;  // include control tokens in the text
  int32_t adapter = -1;       // index of the adapter; -1: none
  int64_t priority = 0;       // higher values are scheduled first
  std::string salt;           // requests with different salts share no cache pages
  std::shared_ptr<Constraint> constraint;
  std::shared_ptr<ImageInputs> images;  // placed in the prompt (llm/image_inputs.h); null: none
  // Minimum Bayes risk: samples this many answers and keeps those most similar to all of them; 0: off.
  int64_t mbr = 0;
  Overlap mbr_metric = Overlap::kChrf;
  bool mbr_embedding = false;  // similarity by embeddings from `embedder`
  std::shared_ptr<Embedder> embedder;
  // With best_of: scores of all answers to `rank_prompt` (a list of turns; null: no ranking); the highest is
  // kept instead of the most probable.
  std::function<Result<std::vector<double>>(const Json& prompt, const std::vector<std::string>& answers)>
      rank;
  Json rank_prompt;
  std::function<bool(int64_t answer, const std::string& text)> on_text;  // false ends that answer
  // Called for each token of sampled answers, before the text that it completes.
  std::function<void(int64_t answer, const GeneratedToken& token)> on_token;
};

// check_decoding(), plus the bounds of the fields added here.
Status check_generation(const TextGenerationOptions& options);

struct GeneratedText : Answer {
  std::string text;
  std::string stop_string;  // the stop string that ended the answer; may be empty
};

struct TextGenerationResult {
  std::vector<GeneratedText> answers;
  int64_t prompt_tokens = 0, reused_tokens = 0;  // reused: found in the prefix cache
  int64_t steps = 0, drafted_tokens = 0, accepted_tokens = 0;
};

// A request in flight. An engine may hold any number of them; each step advances all.
class TextGeneration {
 public:
  // The engine, the model and everything `options` refers to must outlive it.
  static Result<std::unique_ptr<TextGeneration>> begin(Engine& engine, const LanguageModel& language,
                                                       std::vector<int64_t> prompt,
                                                       const TextGenerationOptions& options);
  ~TextGeneration();  // cancels a request that is not done

  bool done() const { return job_->done(); }
  // Requires done().
  Result<TextGenerationResult> finish();

 private:
  TextGeneration(Engine& engine, const TextGenerationOptions& options) : engine_(engine), options_(options) {}
  // Appends to the answer and streams the text. False: the caller ended the answer.
  bool deliver(size_t answer, const std::string& text);

  Engine& engine_;
  TextGenerationOptions options_;
  std::shared_ptr<DecodingJob> job_;
  std::vector<TextStream> streams_;
  std::vector<std::string> texts_;
  std::vector<size_t> pushed_;  // tokens decoded so far, per answer
  bool streaming_ = false;      // all answers are returned: stream their text as it is generated
  int64_t prompt_tokens_ = 0, steps_before_ = 0;
};

// max_new_tokens, or what the context leaves after the prompt; at least 1.
int64_t fitting_tokens(const ModelSpec& spec, const ContextOptions& context, size_t prompt_tokens,
                       int64_t max_new_tokens);

// Runs until this request is answered; the engine may hold others.
Result<TextGenerationResult> generate_text(Engine& engine, const LanguageModel& language,
                                           std::vector<int64_t> prompt, const TextGenerationOptions& options);

const char* name(Finish finish);  // "stop", "length", "time", "unsure"

}  // namespace makar
