// Optimisers on a ParameterSet. One object keeps the state of all parameters by name; the update rule (AdamW,
// Lion, ...) comes from the table in rules.h.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "nn/parameter.h"

namespace makar {

// Settings for some parameters; the first group that matches a parameter applies.
struct ParameterGroup {
  std::string pattern = "*";                        // matches names; '*' matches any characters
  std::function<bool(const Parameter&)> predicate;  // used instead of the pattern when set
  double lr_scale = 1.0;
  std::optional<double> weight_decay;
};

struct OptimizerOptions {
  std::string name = "adamw";  // any name of optimizer_names()
  double weight_decay = 0.0;   // of tensors with 2 or more dimensions, unless a group says otherwise
  // Unset values take the rule's default (PyTorch's where PyTorch has the rule).
  std::optional<double> beta1, beta2, eps, momentum;  // beta2 is also RMSProp's alpha; Adafactor uses none
  // Selects the matrices that Muon updates; AdamW updates all other parameters. Empty: Muon updates every
  // parameter with two dimensions.
  std::function<bool(const Parameter&)> muon_predicate;
  bool muon_match_adamw = false;  // scale Muon's steps to AdamW's size (Moonshot), to share its learning rate
  std::vector<ParameterGroup> groups;
};

struct Rule;

class Optimizer {
 public:
  static Result<Optimizer> make(const ParameterSet& parameters, const OptimizerOptions& options);

  // Updates every trainable parameter that has a gradient. Gradients are multiplied by `gradient_factor`
  // first.
  void step(Device& device, double lr, double gradient_factor = 1.0);

  // The complete state: tensors named <parameter>.<slot>, in parameter order.
  std::vector<std::pair<std::string, Tensor>> state() const;
  // Restores the state of an earlier run, bit for bit.
  Status restore(const std::map<std::string, Tensor>& state);

 private:
  struct Entry {
    Parameter* parameter;
    const Rule* rule;
    double lr_scale, weight_decay;
    int64_t steps = 0;
    std::vector<Tensor> slots;
  };
  explicit Optimizer(OptimizerOptions options) : options_(std::move(options)) {}
  OptimizerOptions options_;
  std::vector<Entry> entries_;
};

std::vector<std::string> optimizer_names();
// '*' in the pattern matches any characters.
bool matches(const std::string& pattern, const std::string& name);

}  // namespace makar
