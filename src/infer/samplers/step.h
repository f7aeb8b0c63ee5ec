// What a sampler is: a row of the tables in sampler.cpp. Those of the first table see the logits of the whole
// vocabulary, those of the second the candidates that are left.
#pragma once
#include <span>
#include <vector>

#include "infer/sampler.h"
#include "infer/samplers/ranking.h"

namespace makar {

// The tokens still allowed in order of their ids; never empty, logits finite.
class Candidates {
 public:
  // Takes the finite ones of `logits`.
  explicit Candidates(std::span<const float> logits, size_t barred);

  size_t size() const { return logits_.size(); }
  size_t vocab() const { return vocab_; }
  int64_t id(size_t i) const { return ids_.empty() ? static_cast<int64_t>(i) : ids_[i]; }
  std::span<const float> logits() const { return logits_; }
  std::span<const float> probabilities();  // softmax of the logits
  double entropy();                        // nats

  void divide(float by);  // the logits
  // Keeps those of which `wanted(i)` is true, or the best one alone when there is none. `wanted` may look at
  // place i only.
  template <class Wanted>
  void keep(const Wanted& wanted);

 private:
  void number();
  void only_best();
  void resize(size_t count);
  size_t vocab_;
  std::vector<float> logits_, probabilities_;
  std::vector<int32_t> ids_;  // empty: the id is the place
};

// What a sampler may look at beside the logits.
struct DrawContext {
  const SamplerOptions& options;
  std::span<const int64_t> tokens;
  uint64_t index;
  double mu;
};

void logit_bias(std::span<float> logits, const DrawContext& draw);
void repetition_penalty(std::span<float> logits, const DrawContext& draw);
void presence_and_frequency(std::span<float> logits, const DrawContext& draw);
void dry(std::span<float> logits, const DrawContext& draw);
void no_repeat_ngram(std::span<float> logits, const DrawContext& draw);

void top_k(Candidates& c, const DrawContext& draw);
void temperature(Candidates& c, const DrawContext& draw);
void top_p(Candidates& c, const DrawContext& draw);
void min_p(Candidates& c, const DrawContext& draw);
void typical(Candidates& c, const DrawContext& draw);
void epsilon(Candidates& c, const DrawContext& draw);
void eta(Candidates& c, const DrawContext& draw);
void xtc(Candidates& c, const DrawContext& draw);
void mirostat(Candidates& c, const DrawContext& draw);
// Mirostat's bound after a token of probability p was drawn.
double mirostat_update(const SamplerOptions& options, double mu, double p);

template <class Wanted>
void Candidates::keep(const Wanted& wanted) {
  const size_t before = size();
  if (ids_.empty()) number();
  const float first_logit = logits_[0];
  const int32_t first_id = ids_[0];
  size_t kept = 0;
  for (size_t i = 0; i < before; ++i) {  // written always, counted when wanted: nothing to mispredict
    const bool stays = wanted(i);
    logits_[kept] = logits_[i];
    ids_[kept] = ids_[i];
    kept += stays ? 1 : 0;
  }
  if (kept == 0) {  // only place 0 was written over
    logits_[0] = first_logit, ids_[0] = first_id;
    return only_best();
  }
  resize(kept);
}

}  // namespace makar
