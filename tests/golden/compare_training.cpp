// Training recipes of the fixtures, step by step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "golden/compare.h"
#include "optim/gradient_norm.h"

namespace makar::golden {
namespace {

// The largest extra tolerance for a training run that is sensitive to the last bits of its weights.
constexpr double kMaxExtraTolerance = 0.05;

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

double relative(double got, double expected, double floor) {
  return std::fabs(got - expected) / std::max(floor, std::fabs(expected));
}

// How much a trace changes if the last bits of the weights change: for each step, the largest relative
// difference up to that step, over several random changes. After such a change a router may select other
// experts, and AdamW turns the sign of a gradient near 0 into a full step.
Result<std::vector<double>> sensitivity(const Model& model, Device& device, const OptimizerOptions& options,
                                        double lr, double clip, const TrainingTrace& trace,
                                        const Loss& loss) {
  constexpr uint64_t kTrials = 4;
  const size_t steps = trace.losses.size();
  const auto& all = model.parameters().all();
  std::vector<Tensor> before;
  for (const auto& p : all) before.push_back(p->value.defined() ? p->value.clone() : Tensor());
  const auto restore = [&] {
    for (size_t i = 0; i < before.size(); ++i)
      all[i]->value = before[i].defined() ? before[i].clone() : Tensor();
  };
  std::vector<double> out(steps, 0.0);
  for (uint64_t trial = 1; trial <= kTrials; ++trial) {
    uint64_t state = trial;
    for (const auto& p : all) {
      if (p->shape.rank() != 2 || !p->value.defined() || p->value.dtype() != DType::kF32) continue;
      Tensor perturbed = p->value.host().clone();
      for (int64_t i = 0; i < perturbed.count(); ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        perturbed.f32()[i] = std::nextafter(perturbed.f32()[i], state >> 63 ? INFINITY : -INFINITY);
      }
      p->value = perturbed.to(device.memory());
    }
    const auto other = train(model, device, options, lr, clip, steps, loss);
    restore();
    if (!other.ok()) return other.error();
    double largest = 0;
    for (size_t i = 0; i < steps; ++i) {
      largest = std::max({largest, relative(other->losses[i], trace.losses[i], 1.0),
                          relative(other->norms[i], trace.norms[i], 0.0)});
      out[i] = std::max(out[i], largest);
    }
  }
  return out;
}

}  // namespace

void compare_training(const Model& model, Device& device, const OptimizerOptions& options, double lr,
                      double clip, const Json& losses, const Json& norms, const Loss& loss, Tally& tally) {
  const size_t steps = losses.size();
  std::vector<Tensor> before;
  for (const auto& p : model.parameters().all())
    before.push_back(p->value.defined() ? p->value.clone() : Tensor());
  const auto trace = train(model, device, options, lr, clip, steps, loss);
  if (!trace.ok()) return tally.fail(trace.error().text());
  const double limit = training_limit();
  const auto loss_error = [&](size_t i) { return relative(trace->losses[i], losses[i].get<double>(), 1.0); };
  const auto norm_error = [&](size_t i) {
    return norms.is_array() ? relative(trace->norms[i], norms[i].get<double>(), 0.0) : 0.0;
  };
  bool within_limits = true;
  for (size_t i = 0; i < steps; ++i)
    within_limits = within_limits && loss_error(i) <= limit && norm_error(i) <= 10 * limit;
  std::vector<double> sensitivities(steps, 0.0);
  if (!within_limits) {
    for (size_t i = 0; i < before.size(); ++i) model.parameters().all()[i]->value = before[i];
    const auto measured = sensitivity(model, device, options, lr, clip, *trace, loss);
    if (!measured.ok()) return tally.fail(measured.error().text());
    sensitivities = *measured;
    tally.note(fmt::format("changing the last bits of the weights changes the training by {:.1e}",
                           sensitivities.back()));
  }
  for (size_t i = 0; i < steps; ++i) {
    tally.add("training", loss_error(i), limit + std::min(10 * sensitivities[i], kMaxExtraTolerance));
    tally.add("training", norm_error(i), 10 * limit + std::min(10 * sensitivities[i], kMaxExtraTolerance));
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
