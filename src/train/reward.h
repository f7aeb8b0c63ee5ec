// Reward models: a scalar head that scores an answer at its last token, trained on rankings (Ouyang et al.,
// 2022). All pairs of the answers to one prompt are one example: each answer passes through the model once,
// and the loss of the prompt is the mean over its pairs.
#pragma once
#include <array>

#include "data/ranked_record.h"
#include "train/answer_pairs.h"
#include "train/examples.h"

namespace makar {

struct RankedAnswers {
  std::vector<std::vector<int64_t>> ids;  // prompt and answer
  std::vector<int64_t> ranks;             // 0 is the best
  float margin = 0;                       // of the record
  static constexpr auto fields() {
    return std::tuple(&RankedAnswers::ids, &RankedAnswers::ranks, &RankedAnswers::margin);
  }
};
Result<RankedAnswers> encode_ranking(const ConversationEncoder& encoder, const RankedRecord& record);

// Stored in temporary files in `folder`.
struct Rankings {
  explicit Rankings(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<RankedAnswers> train, validation;
  BadRecords bad;  // of the file read last
};
// Reads the ranked and the preference records of all datasets.
Result<Rankings> open_rankings(const DatasetOptions& options, const ConversationEncoder& encoder,
                               Json& identity);
// Pairs as rankings of two.
Result<Rankings> rankings_of(const AnswerPairs& pairs, const std::string& folder);

// All pairs of answers whose ranks differ, in a batch of prompts.
struct ComparedPairs {
  std::vector<int64_t> better, worse;  // indices of answers in the batch
  std::vector<float> weights;          // 1 / (pairs of the prompt * prompts)
  std::vector<float> margins;
};
ComparedPairs compared_pairs(std::span<const RankedAnswers> prompts, float margin);
// Weighted sum over the pairs of -log sigmoid(better - worse - margin) + centring * (better + worse)^2
// (Eisenstein et al., 2023); scores [answers].
Tensor ranking_loss(Context& ctx, const Tensor& scores, const ComparedPairs& pairs, float centring);

// How often the answer with the higher score is the better one, in bins of confidence. The confidence of a
// pair is the probability that its scores give to the answer with the higher score.
struct PairCalibration {
  static constexpr size_t kBins = 10;
  std::array<double, kBins> pairs{}, correct{}, confidence{};
  void add(double difference);  // of the scores, better minus worse
  double error() const;         // expected calibration error: mean |confidence - accuracy|, weighted by pairs
  std::string svg() const;
};

// Sums over compared pairs.
struct Comparison {
  double pairs = 0, correct = 0, margin = 0, answers = 0, score = 0;
  PairCalibration calibration;
  void add(std::span<const float> scores, const ComparedPairs& compared);
  Metrics metrics() const;  // accuracy, margin, score
};

struct RewardOptions {
  float margin = 0, centring = 0;
};

// The base model with a new scalar head, as a *ForSequenceClassification with one label; the head of a reward
// model is kept. transformers scores the last token that is not padding, so the padding token must not end an
// answer: a padding token that is also an end token is replaced by bos, or removed.
Result<LoadedModel> with_reward_head(const Model& base, const std::string& place, uint64_t seed);
// A quality head: several labels, each with its own probability.
Result<LoadedModel> with_answer_head(const Model& base, const std::string& place,
                                     const std::vector<std::string>& labels, uint64_t seed);
// The scores of a batch: [sequences].
Tensor reward_scores(ForwardContext& f, const Model& model, const Batch& batch);
Status check_reward_model(const ModelSpec& spec, const std::string& place);

class RewardTask : public ExampleTask {
 public:
  RewardTask(Model& model, Rankings data, const RewardOptions& options, int64_t batch, uint64_t seed);
  Status prepare_step(uint64_t step, Device& device) override;
  Metrics step_metrics() const override { return step_.metrics(); }
  Result<Metrics> metrics(Device& device) override;
  std::string watched() const override { return "accuracy"; }
  bool tokens_are_targets() const override { return false; }
  // The calibration in the last validation.
  const PairCalibration& calibration() const { return calibration_; }

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  struct Prompts {
    Batch batch;
    ComparedPairs pairs;
  };
  Result<Prompts> read(std::span<const size_t> which, bool validation) const;
  Model& model_;
  Rankings data_;
  RewardOptions o_;
  Comparison step_;
  PairCalibration calibration_;
};

}  // namespace makar
