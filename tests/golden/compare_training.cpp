// Training recipes of the fixtures, step by step.
#include <algorithm>
#include <cmath>

#include "golden/compare.h"
#include "optim/gradient_norm.h"

namespace makar::golden {
namespace {

double training_limit() { return activations() == DType::kF32 ? 1e-4 : 5e-3; }

struct TrainingTrace {
  std::vector<double> losses, norms;  // per step, norms before clipping
};

Result<TrainingTrace> train(const Model& model, Device& device, const OptimizerOptions& options, double lr,
                            double clip, size_t steps, const Loss& loss) {
  MAKAR_TRY(Optimizer optimizer, Optimizer::make(model.parameters(), options));
  TrainingTrace trace;
  for (size_t step = 0; step < steps; ++step) {
    MAKAR_TRY(const double value, backward(model, device, loss));
    const double norm = gradient_norm(device, model.parameters());
    trace.losses.push_back(value), trace.norms.push_back(norm);
    optimizer.step(device, lr, clip > 0 ? clip_factor(norm, clip) : 1.0);
  }
  return trace;
}

double relative(double got, double want, double floor) {
  return std::fabs(got - want) / std::max(floor, std::fabs(want));
}

// How far a trace moves if the value projections change by their last bit: up to the given step, the largest
// relative difference. A router turns such a difference into another choice of experts after a few steps.
Result<std::vector<double>> sensitivity(const Model& model, Device& device, const OptimizerOptions& options,
                                        double lr, double clip, size_t steps, const Loss& loss) {
  std::vector<Tensor> before;
  for (const auto& p : model.parameters().all())
    before.push_back(p->value.defined() ? p->value.clone() : Tensor());
  const auto restore = [&] {
    for (size_t i = 0; i < before.size(); ++i)
      model.parameters().all()[i]->value = before[i].defined() ? before[i].clone() : Tensor();
  };
  MAKAR_TRY(const TrainingTrace plain, train(model, device, options, lr, clip, steps, loss));
  restore();
  for (const auto& p : model.parameters().all()) {
    if (!p->name.ends_with(".attn.v.weight")) continue;
    Tensor moved = p->value.host().clone();
    for (int64_t i = 0; i < moved.count(); ++i)
      moved.f32()[i] = std::nextafter(moved.f32()[i], i % 2 ? INFINITY : -INFINITY);
    p->value = moved.to(device.memory());
  }
  MAKAR_TRY(const TrainingTrace other, train(model, device, options, lr, clip, steps, loss));
  restore();
  std::vector<double> out;
  double largest = 0;
  for (size_t i = 0; i < steps; ++i) {
    largest = std::max({largest, relative(other.losses[i], plain.losses[i], 1.0),
                        relative(other.norms[i], plain.norms[i], 0.0)});
    out.push_back(largest);
  }
  return out;
}

}  // namespace

void compare_training(const Model& model, Device& device, const OptimizerOptions& options, double lr,
                      double clip, const Json& losses, const Json& norms, const Loss& loss, Tally& tally) {
  const size_t steps = losses.size();
  std::vector<double> moved(steps, 0.0);
  if (model.spec().main().routed()) {
    const auto measured = sensitivity(model, device, options, lr, clip, steps, loss);
    if (!measured.ok()) return tally.fail(measured.error().text());
    moved = *measured;
  }
  const auto trace = train(model, device, options, lr, clip, steps, loss);
  if (!trace.ok()) return tally.fail(trace.error().text());
  for (size_t i = 0; i < steps; ++i) {
    const double room = 10 * moved[i];
    tally.add("training", relative(trace->losses[i], losses[i].get<double>(), 1.0), training_limit() + room);
    if (norms.is_array())
      tally.add("training", relative(trace->norms[i], norms[i].get<double>(), 0.0),
                10 * training_limit() + room);
  }
}

OptimizerOptions adamw(double beta2, double decay) {
  OptimizerOptions o;
  o.name = "adamw";
  o.beta1 = 0.9, o.beta2 = beta2, o.eps = 1e-8;
  o.weight_decay = decay;
  // transformers has the biases of all experts in one matrix, and the recipe decays matrices.
  ParameterGroup biases;
  biases.predicate = [](const Parameter& p) {
    return p.name.find(".experts.") != std::string::npos && p.name.ends_with(".bias");
  };
  biases.weight_decay = decay;
  o.groups = {biases};
  return o;
}

}  // namespace makar::golden
