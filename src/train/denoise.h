// Denoising objectives: masked tokens (BERT: 15 %, of which 80 % masked, 10 % random, 10 % unchanged),
// next-sentence prediction, span corruption (T5), infilling (BART), permuted order (XLNet), replaced tokens
// (ELECTRA). The noise is drawn again each time an example is used, and depends only on (seed, batch).
#pragma once
#include "base/rng.h"
#include "train/causal.h"
#include "train/pairs.h"

namespace makar {

// Ids of the special tokens that the objectives use; -1 if the vocabulary lacks one.
struct SpecialIds {
  int64_t cls = -1, sep = -1, mask = -1, eos = -1, bos = -1;
  std::vector<int64_t> sentinels;  // <extra_id_0>, <extra_id_1>, ...
  int64_t vocab = 0;
  static SpecialIds of(const Tokenizer& tokenizer);
};

// Random numbers at consecutive indices of one stream.
struct Draws {
  Rng rng;
  uint64_t next = 0;
  double uniform() { return rng.uniform_double(next++); }
  uint64_t below(uint64_t n) { return rng.bits(next++)[0] % n; }
};

// Masks tokens of `ids` in place; targets hold the original ids of masked tokens and -100 elsewhere. Special
// tokens are never masked.
void mask_tokens(std::vector<int64_t>& ids, std::vector<int64_t>& targets, const SpecialIds& special,
                 double share, Draws& draws);
// Raffel et al., 2019: 15 % of the tokens in spans of 3 on average. In the source a sentinel replaces each
// span; the target lists the spans.
TokenPair corrupt_spans(const std::vector<int64_t>& ids, const SpecialIds& special, Draws& draws);
// Lewis et al., 2019: 30 % of the tokens in spans of Poisson(3) length, each replaced by one mask token; the
// target is the whole text.
TokenPair infill(const std::vector<int64_t>& ids, const SpecialIds& special, Draws& draws);

enum class NoiseKind {
  kMasked,
  kSpans,
  kInfill,
  kPermuted,  // XLNet (permuted.h)
  kReplaced,  // ELECTRA (replaced.h)
};

class DenoiseTask : public Task {
 public:
  DenoiseTask(Model& model, std::vector<TokenSource> sources, std::vector<TokenStore> validation,
              CausalOptions options, SpecialIds special, NoiseKind noise, Model* generator = nullptr);
  Result<MicroBatch> train_batch(uint64_t index) override;
  uint64_t batches_per_epoch() const override;
  uint64_t validation_batches() const override;
  Result<MicroBatch> validation_batch(uint64_t index) override;
  // Accuracy of next-sentence prediction, if the model is trained on it.
  Result<Metrics> metrics(Device& device) override;
  bool tokens_are_targets() const override { return noise_ != NoiseKind::kReplaced; }
  static Result<NoiseKind> noise_of(const ModelSpec& spec, const SpecialIds& special);

 private:
  using Pieces = std::vector<std::vector<int64_t>>;  // texts, each from one document
  // A batch with masked tokens: their rows, their original ids, and `next` with one entry per pair: 1 if the
  // second half does not follow the first.
  struct Masked {
    Batch batch;
    std::vector<int64_t> rows, originals, next;
  };
  Pieces validation_pieces(uint64_t index) const;
  Result<MicroBatch> make(const Pieces& pieces, uint64_t draw);
  Masked mask(const Pieces& pieces, uint64_t draw) const;
  MicroBatch permuted(const Pieces& pieces, uint64_t draw);
  MicroBatch masked(Masked examples);
  bool pairs() const { return model_.spec().head.kind == HeadKind::kPretraining; }
  Model& model_;
  std::vector<TokenSource> sources_;
  std::vector<TokenStore> validation_;
  CausalOptions o_;
  SpecialIds special_;
  NoiseKind noise_;
  Model* generator_;  // kReplaced
  Mixture mixture_;
};

}  // namespace makar
