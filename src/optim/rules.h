// The table of update rules. A rule names its state tensors and updates parameters.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "optim/optimizer.h"

namespace makar {

struct Slot {
  std::string name;  // as in PyTorch
  Shape shape;       // starts as zeros
};

// One step of one parameter. The gradient is `g * factor`.
struct Update {
  Device& device;
  const Tensor& p;
  const Tensor& g;
  std::span<const Tensor> slots;
  int64_t step;  // 1 for the first
  double lr, weight_decay, factor;
  double beta1, beta2, eps, momentum;
  const OptimizerOptions& options;
};

struct Rule {
  // The first is the main name, the others are the names of transformers and Axolotl.
  std::vector<std::string> names;
  double beta1, beta2, eps, momentum;  // defaults
  std::vector<Slot> (*slots)(const Shape& shape);
  void (*update)(std::span<const Update> all);  // all parameters with this rule
};

const std::vector<Rule>& rules();
Result<const Rule*> find_rule(const std::string& name);

std::vector<Slot> adafactor_slots(const Shape& shape);
void adafactor(std::span<const Update> all);
std::vector<Slot> muon_slots(const Shape& shape);
void muon(std::span<const Update> all);

}  // namespace makar
