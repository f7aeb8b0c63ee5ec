// The training loop of small networks: shuffled batches, gradients, the optimiser. Batches are a pure
// function of (seed, epoch).
#pragma once
#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ops/context.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace makar {

struct NetTraining {
  int64_t epochs = 20, batch = 64, seed = 1;
  std::string optimizer = "adamw", lr_scheduler = "cosine";
  double learning_rate = 1e-3, weight_decay = 0, max_grad_norm = 0;
  double beta1 = -1;  // negative: the optimiser's default
};
Status check(const NetTraining& options);

struct EpochResult {
  int64_t epoch = 0;  // from 1
  double loss = 0;    // mean over the epoch
};
// `loss` returns the loss of the examples with these indices. `each` is called after every epoch and ends the
// training if it returns false.
Status train_net(ParameterSet& set, Device& device, const NetTraining& options, size_t examples,
                 const std::function<Tensor(Context&, std::span<const size_t>)>& loss,
                 const std::function<Result<bool>(const EpochResult&)>& each);

// One training step: computes the loss and its gradients, and updates the parameters. Returns the loss.
Result<double> train_net_step(ParameterSet& set, Optimizer& optimizer, Context ctx, double lr,
                              double max_norm, const std::function<Tensor(Context&)>& loss);

}  // namespace makar
