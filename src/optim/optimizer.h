// Optimisers on a ParameterSet. One object keeps the state of all parameters by name; the rule (AdamW, Lion,
// ...) comes from the table in rules.h.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "nn/parameter.h"

namespace makar {

// Settings of some parameters; the first group that takes a parameter has it.
struct ParameterGroup {
  std::string pattern = "*";                        // over names, '*' for any run of characters
  std::function<bool(const Parameter&)> predicate;  // instead of the pattern, when given
  double lr_scale = 1.0;
  std::optional<double> weight_decay;
};

struct OptimizerOptions {
  std::string name = "adamw";  // any name of optimizer_names()
  double weight_decay = 0.0;   // of tensors with 2 or more dimensions, unless a group says otherwise
  // Left out, each is the rule's own default (PyTorch's where PyTorch has the rule).
  std::optional<double> beta1, beta2, eps, momentum;  // beta2 is also RMSProp's alpha; Adafactor takes none
  // Where a matrix is stepped by AdamW although the optimiser is Muon: look-up tables and heads.
  std::vector<std::string> muon_exclude = {"*embed*",  "*wte*",        "*wpe*",  "*lm_head*",
                                           "*shared*", "*classifier*", "*score*"};
  bool muon_match_adamw = false;  // scale Muon's steps to AdamW's size (Moonshot), to share its learning rate
  std::vector<ParameterGroup> groups;
};

struct Rule;

class Optimizer {
 public:
  static Result<Optimizer> make(const ParameterSet& parameters, const OptimizerOptions& options);

  // One update of every trainable parameter that has a gradient, which is multiplied by `gradient_factor`
  // first.
  void step(ThreadPool& pool, double lr, double gradient_factor = 1.0);

  // All there is to keep: state tensors named <parameter>.<slot>, in the order of the parameters.
  std::vector<std::pair<std::string, Tensor>> state() const;
  // Takes the state of an earlier run back, to the bit.
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
// '*' in the pattern stands for any run of characters.
bool matches(const std::string& pattern, const std::string& name);

}  // namespace makar
