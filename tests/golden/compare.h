// Comparisons for the fixtures of whole models: outputs, gradients, training and generation against those
// recorded with transformers.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "golden/golden.h"
#include "models/load.h"
#include "optim/optimizer.h"
#include "train/objective.h"

namespace makar::golden {

using Tensors = std::map<std::string, Tensor>;
using Loss = std::function<Result<Tensor>(ForwardContext&)>;

constexpr double kForwardLimit = 1e-5;
// The type of activations of the whole run, f32 or bf16, and the limits that follow from it.
DType activations();
void set_activations(DType type);
double loss_limit();

// The comparisons of a fixture, reported in one line: the worst error of each kind.
class Tally {
 public:
  void add(const std::string& kind, double error, double limit) {
    if (!(error >= 0)) error = INFINITY;
    auto& worst = worst_[kind];
    worst = std::max(worst, error);
    ratio_ = std::max(ratio_, error / limit);
    if (!(error <= limit)) failed_ = true;
  }
  void fail(const std::string& what) { failed_ = true, note_ += (note_.empty() ? "" : "; ") + what; }
  void note(const std::string& what) { note_ += (note_.empty() ? "" : "; ") + what; }
  GoldenLine line(const std::string& name) const {
    std::string text;
    for (const auto& [kind, error] : worst_)
      text += fmt::format("{}{} {:.1e}", text.empty() ? "" : "  ", kind, error);
    double top = 0;
    for (const auto& [kind, error] : worst_) top = std::max(top, error);
    if (!note_.empty()) text += (text.empty() ? "" : "  ") + ("(" + note_ + ")");
    return {name, top, top / std::max(ratio_, 1e-30), failed_ ? "fail" : "pass", text};
  }

 private:
  std::map<std::string, double> worst_;
  double ratio_ = 0;
  bool failed_ = false;
  std::string note_;
};

Result<Tensors> read_tensors(const std::string& path);
// The tensors whose names start with `prefix`, without it.
Tensors part(const Tensors& all, const std::string& prefix);
// Relative error of norms over the rows that the mask does not hide.
double relative_error(const Tensor& computed, const Tensor& expected, const Tensor* mask);

void compare_forward(const Model& model, Device& device, const Tensors& in, const Tensors& expected,
                     const std::string& place, Tally& tally);
void compare_gradients(const LoadedModel& loaded, const Json& expected, Tally& tally);
// Gradients of a loss for all trainable parameters, in their grad. Returns the loss.
Result<double> backward(const Model& model, Device& device, const Loss& loss);
OptimizerOptions adamw(double beta2, double decay);
// Trains and compares the losses, and the gradients' norms before clipping if `norms` is a list.
void compare_training(const Model& model, Device& device, const OptimizerOptions& options, double lr,
                      double clip, const Json& losses, const Json& norms, const Loss& loss, Tally& tally);
// `recovered`: the position table was recovered from the fixture, which shows only its first rows.
void compare_generation(const Model& model, Device& device, const Json& runs, bool recovered, Tally& tally);

// The fixtures of adapters and of DPO.
GoldenLine run_adapter(const std::string& name, const std::string& base, const std::string& folder, double lr,
                       Device& device, const std::string& note = "");
GoldenLine run_dpo(const std::string& root, Device& device);

}  // namespace makar::golden
