// A sampler is a row of the tables in sampler.cpp. Samplers of the first table process the logits of the
// whole vocabulary, those of the second the remaining candidates.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "infer/sampler.h"
#include "infer/samplers/ranking.h"

namespace makar {

// The remaining candidate tokens, ordered by id; never empty, logits finite.
class Candidates {
 public:
  // Takes the finite entries of `logits`; `e`: their extremes.
  void reset(std::span<const float> logits, const Extremes& e);

  size_t size() const { return logits_.size(); }
  size_t vocab() const { return vocab_; }
  int64_t id(size_t i) const { return has_ids_ ? ids_[i] : static_cast<int64_t>(i); }
  std::span<const float> logits() const { return logits_; }
  // exp(logit - best logit), unnormalised. Weights do not change when other candidates are removed, so a
  // truncation needs no exponentials.
  std::span<const float> weights();
  int64_t units();             // the sum of the weights, in units of kernels/sampling.h
  double total();              // of the weights
  const Extremes& extremes();  // of the logits
  double log_total();          // log-sum-exp of the logits
  double entropy();            // nats

  void divide(float by);  // divides the logits
  // Keeps the candidates for which `test(i)` is true, or the best one if there are none. `test` may only read
  // index i.
  template <class Test>
  void keep(const Test& test);

 private:
  void only_best();
  void resize(size_t count);
  size_t vocab_ = 0;
  std::vector<float> logits_, weights_, scratch_;
  bool has_weights_ = false;
  std::optional<int64_t> units_;
  std::optional<Extremes> extremes_;
  float zero_ = 0;  // the logit with weight 1
  std::vector<int32_t> ids_;
  bool has_ids_ = false;  // false: the id equals the index
};

// Inputs of a sampler besides the logits.
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
void mask_until_length(std::span<float> logits, const DrawContext& draw);

void top_k(Candidates& c, const DrawContext& draw);
void temperature(Candidates& c, const DrawContext& draw);
void top_p(Candidates& c, const DrawContext& draw);
void min_p(Candidates& c, const DrawContext& draw);
void typical(Candidates& c, const DrawContext& draw);
void epsilon(Candidates& c, const DrawContext& draw);
void eta(Candidates& c, const DrawContext& draw);
void xtc(Candidates& c, const DrawContext& draw);
void mirostat(Candidates& c, const DrawContext& draw);
// Mirostat's bound after sampling a token of probability p.
double mirostat_update(const SamplerOptions& options, double mu, double p);

template <class Test>
void Candidates::keep(const Test& test) {
  if (!has_ids_) ids_.resize(size());
  size_t kept = 0;
  const int32_t first_id = static_cast<int32_t>(id(0));
  const float first_logit = logits_[0];
  // In place: the write position never passes the read position. Always write; count only kept candidates.
  for_blocks(size(), test, [&](size_t i, bool passes) {
    ids_[kept] = static_cast<int32_t>(id(i));
    logits_[kept] = logits_[i];
    if (has_weights_) weights_[kept] = weights_[i];
    kept += passes ? 1 : 0;
  });
  if (kept == 0) {  // only index 0 was overwritten
    ids_[0] = first_id, logits_[0] = first_logit;
    return only_best();
  }
  resize(kept);
}

}  // namespace makar
