#include "train/step.h"

#include <cmath>

#include "optim/gradient_norm.h"

namespace makar {

StepResult train_step(Model& model, Optimizer& optimizer, Device& device, const Batch& batch,
                      const std::vector<int64_t>& targets, const StepOptions& options) {
  StepResult result;
  Tape tape(device);
  const ParameterSet& parameters = model.parameters();
  parameters.clear_gradients();
  parameters.watch(tape);
  Context ctx{device, &tape, true, options.seed, options.step};
  ctx.activations = options.activations;
  ForwardContext f{ctx, nullptr, nullptr, options.checkpoint};
  Inputs inputs;
  inputs.source = batch;
  const Tensor loss = model.lm_loss(ctx, model.hidden(f, inputs), targets);
  tape.backward(loss);
  parameters.collect(tape);
  result.norm = gradient_norm(device, parameters);
  result.loss = loss.host().f32()[0];  // after the norm, which waits for the device
  result.applied = std::isfinite(result.loss) && std::isfinite(result.norm);
  if (result.applied) optimizer.step(device, options.lr, clip_factor(result.norm, options.max_norm));
  return result;
}

}  // namespace makar
