// How a request chooses its tokens: the options, their bounds, and the job that follows them.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>

#include "infer/beam_job.h"
#include "infer/context.h"
#include "infer/number_options.h"
#include "infer/sample_job.h"

namespace makar {

struct Decoding {
  int64_t max_new_tokens = 64, answers = 1;
  int64_t min_new_tokens = 0;  // ending ids are barred before
  bool ignore_eos = false;     // no id ends an answer
  SamplerOptions sampler;
  int64_t logprobs = -1;  // alternatives reported with each token; -1: none
  // Beam search where beams > 1; nothing is drawn then.
  int64_t beams = 1, beam_groups = 1;
  double diversity_penalty = 0, length_penalty = 1;
  EarlyStop early = EarlyStop::kNo;
  double penalty_alpha = 0;  // contrastive search among sampler.top_k tokens where > 0
  int64_t best_of = 0;       // draws this many and keeps the most probable, by the mean of their tokens
  double max_time = 0;       // seconds; 0: no bound
  double stop_below = 0;     // a token of a smaller probability is the last
};

using DecodingOption = NumberOption<Decoding>;
std::span<const DecodingOption> decoding_options();

// Bounds of every field, and what excludes what; the error names the option.
Status check_decoding(const Decoding& decoding);

// What a job hands out and is held to beside its options.
struct DecodingHooks {
  std::function<bool(int64_t answer, const Written&)> on_token;  // of drawn answers; false ends one
  std::shared_ptr<Constraint> constraint;
  std::shared_ptr<Drafter> drafter;
  int64_t draft_tokens = 4;
};

// Ids within the vocabulary, and a model that writes with room for the answer: what every request is checked
// for. The prompt loses its oldest tokens where the policy says so.
Status fit_request(const Model& model, const ContextOptions& context, std::vector<int64_t>& prompt,
                   const Decoding& decoding);

// The tokens a decoder begins with: the prompt, or the start token where an encoder reads the prompt.
std::vector<int64_t> decoder_prompt(const Model& model, const std::vector<int64_t>& prompt);

// The job for a prompt that fits. `stop`: ids that end an answer.
std::shared_ptr<WriteJob> make_job(const Model& model, const ContextOptions& context,
                                   const std::vector<int64_t>& prompt, const Decoding& decoding,
                                   std::vector<int64_t> stop, DecodingHooks hooks = {});

// Of several answers those with the highest scores, best first.
template <class A>
void keep_best(std::vector<A>& answers, int64_t count) {
  std::stable_sort(answers.begin(), answers.end(), [](const A& a, const A& b) { return a.score > b.score; });
  answers.resize(std::min(answers.size(), static_cast<size_t>(count)));
}

}  // namespace makar
