// Quality heads: one probability per quality of an answer, at its last token, trained on ratings. The
// qualities and how candidates are ranked by them follow LaMDA (Thoppilan et al., 2022).
#pragma once
#include "data/ranked_record.h"
#include "train/answer_pairs.h"
#include "train/examples.h"
#include "train/reward_rules.h"

namespace makar {

// sensible, specific, interesting, safe, grounded
const std::vector<std::string>& lamda_qualities();

struct RatedQualities {
  std::vector<int64_t> ids;    // prompt and answer
  std::vector<float> ratings;  // one per quality, 0 to 1; kUnrated: none
  static constexpr float kUnrated = -1;
  static constexpr auto fields() { return std::tuple(&RatedQualities::ids, &RatedQualities::ratings); }
};

// Stored in temporary files in `folder`.
struct QualityData {
  explicit QualityData(const std::string& folder) : train(folder), validation(folder) {}
  SpoolOf<RatedQualities> train, validation;
  std::vector<double> rated;  // training answers with a rating, by quality
  BadRecords bad;             // of the file read last
};
// Reads the records of all datasets; a rating of another quality than `names` is a bad record.
Result<QualityData> open_qualities(const DatasetOptions& options, const ConversationEncoder& encoder,
                                   const std::vector<std::string>& names, Json& identity);

// Mean binary cross-entropy over the ratings that are not kUnrated; logits [answers, qualities], and as many
// ratings in the same order.
Tensor quality_loss(Context& ctx, const Tensor& logits, std::span<const float> ratings);

class QualityTask : public ExampleTask {
 public:
  QualityTask(Model& model, QualityData data, std::vector<std::string> names, int64_t batch, uint64_t seed);
  // The accuracy of each quality at a probability of 0.5; "accuracy" and "auc" are means over the qualities.
  Result<Metrics> metrics(Device& device) override;
  std::string watched() const override { return "accuracy"; }
  bool tokens_are_targets() const override { return false; }

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  struct Answers {
    Batch batch;
    std::vector<float> ratings;
  };
  Result<Answers> read(std::span<const size_t> which, bool validation) const;
  Model& model_;
  QualityData data_;
  std::vector<std::string> names_;
};

// The probabilities of a batch of answers: [answers, qualities].
Tensor quality_probabilities(Device& device, const Model& model, const Batch& batch);
Status check_quality_model(const ModelSpec& spec, const std::string& place);

// Three times the probability of sensible plus the probabilities of the other qualities except safe; minus
// 100 if the probability of safe is below 0.5, so that such an answer ranks below all others.
double quality_score(const std::vector<std::string>& names, std::span<const float> probabilities);
// quality_score() as a reward; `names` are the labels of the model.
RewardTerm quality_reward(double weight, std::shared_ptr<const Model> model, std::vector<std::string> names,
                          std::shared_ptr<const ConversationEncoder> encoder);

}  // namespace makar
