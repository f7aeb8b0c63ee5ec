// Decoding options of a request, their bounds, and the job that they select.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>

#include "base/option_table.h"
#include "infer/beam_job.h"
#include "infer/context.h"
#include "infer/sample_job.h"

namespace makar {

struct Decoding {
  int64_t max_new_tokens = 64, answers = 1;
  int64_t min_new_tokens = 0;  // stop ids are masked until then
  bool ignore_eos = false;     // no id ends an answer
  SamplerOptions sampler;
  int64_t logprobs = -1;  // alternatives reported with each token; -1: none
  // Beam search if beams > 1; no sampling then.
  int64_t beams = 1, beam_groups = 1;
  double diversity_penalty = 0, length_penalty = 1;
  EarlyStop early_stop = EarlyStop::kNo;
  double penalty_alpha = 0;  // > 0: contrastive search among sampler.top_k tokens
  int64_t best_of = 0;       // samples this many and keeps those with the highest mean log-probability
  double max_time = 0;       // seconds; 0: no limit
  double stop_below = 0;     // a token of lower probability ends the answer
};

using DecodingOption = TableOption<Decoding>;
std::span<const DecodingOption> decoding_options();
// Reads one key of a request into the options or into the sampler options. False: no option has that name.
Result<bool> read_decoding_option(Decoding& target, const std::string& key, const Json& value);

// Checks the bounds of every field and conflicting options; the error names the option.
Status check_decoding(const Decoding& decoding);

// Callbacks and constraints of a job besides its options.
struct DecodingHooks {
  std::function<bool(int64_t answer, const GeneratedToken&)>
      on_token;  // sampled answers only; false ends the answer
  std::shared_ptr<Constraint> constraint;
  std::shared_ptr<Drafter> drafter;
  int64_t draft_tokens = 4;
  std::shared_ptr<ImageInputs> images;
};

// Checks a request: ids are in the vocabulary, the model generates text, and the answer fits the context.
// Truncates the prompt on the left if the context policy is kTruncateLeft; never a prompt with images.
Status fit_request(const Model& model, const ContextOptions& context, std::vector<int64_t>& prompt,
                   const Decoding& decoding, const ImageInputs* images = nullptr);

// The initial decoder tokens: the prompt, or the start token if an encoder reads the prompt.
std::vector<int64_t> decoder_prompt(const Model& model, const std::vector<int64_t>& prompt);

// Makes the job for a prompt that fits. `stop`: ids that end an answer.
std::shared_ptr<DecodingJob> make_job(const Model& model, const ContextOptions& context,
                                      const std::vector<int64_t>& prompt, const Decoding& decoding,
                                      std::vector<int64_t> stop, DecodingHooks hooks = {});

// Keeps the answers with the highest scores, best first.
template <class A>
void keep_best(std::vector<A>& answers, int64_t count) {
  std::stable_sort(answers.begin(), answers.end(), [](const A& a, const A& b) { return a.score > b.score; });
  answers.resize(std::min(answers.size(), static_cast<size_t>(count)));
}

}  // namespace makar
