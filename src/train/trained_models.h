// The models that a run trains, with their optimisers. Usually one; PPO trains a policy and a value model
// with one loss. Frozen models (a reference, a teacher, a reward model) are not listed: a task holds them by
// const reference.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/model.h"
#include "optim/optimizer.h"
#include "train/settings.h"

namespace makar {

struct TrainedModel {
  Model* model;
  std::string name = "";  // prefix of its tensors in checkpoints; the main model has none
  double lr_scale = 1;
};

class TrainedModels {
 public:
  // The main model alone. Not explicit: most runs have one model.
  TrainedModels(Model& main) : all_{{&main}} {}  // NOLINT(google-explicit-constructor)
  // The first is the main model, without a name; the names of the others are not empty, unique, and hold no
  // '/'.
  explicit TrainedModels(std::vector<TrainedModel> models);

  Model& main() const { return *all_.front().model; }
  const std::vector<TrainedModel>& all() const { return all_; }
  // Calls visit(name, parameter) for every parameter that is trained; names are unique across the models.
  void each_parameter(const std::function<void(const std::string&, Parameter&)>& visit) const;

  void to(Memory& memory) const;
  void watch(Tape& tape) const;
  void collect(const Tape& tape) const;
  void clear_gradients() const;
  // One norm over the gradients of all models.
  double gradient_norm(Device& device) const;

 private:
  std::vector<TrainedModel> all_;
};

// One optimiser per model, with the same settings and step.
class Optimizers {
 public:
  static Result<Optimizers> make(const TrainedModels& models, const LoopSettings& settings);
  void step(Device& device, double lr, double gradient_factor);
  // All state tensors; names are unique across the models.
  std::vector<std::pair<std::string, Tensor>> state() const;
  Status restore(const std::map<std::string, Tensor>& state);

 private:
  struct Entry {
    std::string prefix;
    double lr_scale;
    Optimizer optimizer;
  };
  std::vector<Entry> all_;
};

}  // namespace makar
