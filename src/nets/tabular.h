// Regression and classification of tables by a multi-layer perceptron.
#pragma once
#include "nets/batches.h"
#include "nets/mlp.h"
#include "nets/table.h"

namespace makar {

struct TabularOptions {
  std::string target, hidden = "64,64", activation = "relu", loss = "auto";
  bool classes = false, batch_norm = false;
  double dropout = 0;
  double validation = 0.2;  // share of rows held out, unless validation data is given
  int64_t patience = 0;  // stops after this many epochs without a better validation loss; 0: runs all epochs
  NetTraining training;
};

struct TabularEpoch {
  int64_t epoch = 0;
  double loss = 0, validation_loss = 0;
  double score = 0;  // accuracy, or root mean squared error
};

class TabularNet {
 public:
  TabularNet() = default;
  // Keeps the weights of the best validation loss.
  static Result<TabularNet> train(const std::vector<TableRow>& rows, const std::vector<TableRow>& validation,
                                  const TabularOptions& options, Device& device,
                                  const std::function<void(const TabularEpoch&)>& each);
  // Per row: [classes] probabilities, or one number in the target's unit.
  Result<std::vector<std::vector<double>>> predict(const std::vector<TableRow>& rows, Device& device);
  // The same for rows that are already encoded, [count * width].
  std::vector<std::vector<double>> predict_encoded(std::vector<float> encoded, Device& device);
  const TableEncoder& encoder() const { return encoder_; }
  const std::vector<TabularEpoch>& epochs() const { return epochs_; }
  const std::string& target() const { return target_; }
  size_t training_rows() const { return training_rows_; }
  const TabularEpoch& best() const { return best_; }
  int64_t parameters() const { return set_.count(); }

  Status save(const std::string& folder) const;
  static Result<TabularNet> load(const std::string& folder);

 private:
  TableEncoder encoder_;
  std::string target_;
  ParameterSet set_;
  Mlp net_;
  std::vector<TabularEpoch> epochs_;
  TabularEpoch best_;
  size_t training_rows_ = 0;
};

}  // namespace makar
