#include "optim/rules.h"

#include <cmath>

#include "base/nearest.h"
#include "ops/tape.h"

namespace makar {
namespace {

using kernels::UpdateKind;

std::vector<Slot> no_slots(const Shape&) { return {}; }
std::vector<Slot> momentum_slots(const Shape& s) { return {{"momentum_buffer", s}}; }
std::vector<Slot> adagrad_slots(const Shape& s) { return {{"sum", s}}; }
std::vector<Slot> rmsprop_slots(const Shape& s) { return {{"square_avg", s}}; }
std::vector<Slot> adam_slots(const Shape& s) { return {{"exp_avg", s}, {"exp_avg_sq", s}}; }
std::vector<Slot> lion_slots(const Shape& s) { return {{"exp_avg", s}}; }

// The arguments that rules with at most one state tensor share; `l2` adds the weight decay to the gradient,
// as PyTorch's older rules do.
kernels::Update update_of(const Update& u, UpdateKind kind, bool l2) {
  kernels::Update a{};
  a.kind = kind;
  a.p = f32_on(u.device, u.p), a.g = f32_on(u.device, u.g);
  a.state = u.slots.empty() ? nullptr : f32_on(u.device, u.slots[0]);
  a.n = u.p.count();
  a.lr = static_cast<float>(u.lr), a.factor = static_cast<float>(u.factor);
  a.l2 = l2 ? static_cast<float>(u.weight_decay) : 0.0f;
  a.momentum = static_cast<float>(u.momentum), a.eps = static_cast<float>(u.eps);
  a.beta1 = static_cast<float>(u.beta1), a.rest1 = static_cast<float>(1.0 - u.beta1);
  a.beta2 = static_cast<float>(u.beta2), a.rest2 = static_cast<float>(1.0 - u.beta2);
  a.decay = static_cast<float>(1.0 - u.lr * u.weight_decay);
  a.first = u.step == 1;
  return a;
}

// Rules with at most one state tensor.
template <UpdateKind kind, bool l2>
void simple(std::span<const Update> all) {
  for (const Update& u : all) u.device.update(update_of(u, kind, l2));
}

kernels::AdamW adam_of(const Update& u, bool decoupled) {
  const double steps = static_cast<double>(u.step);
  // Bias corrections of the first and the second moment.
  const double first = 1.0 - std::pow(u.beta1, steps), second = 1.0 - std::pow(u.beta2, steps);
  kernels::AdamStep s{};
  s.beta2 = static_cast<float>(u.beta2);
  s.rest1 = static_cast<float>(1.0 - u.beta1), s.rest2 = static_cast<float>(1.0 - u.beta2);
  s.eps = static_cast<float>(u.eps);
  s.step = static_cast<float>(u.lr / first), s.v_scale = static_cast<float>(1.0 / std::sqrt(second));
  s.decay = decoupled ? static_cast<float>(1.0 - u.lr * u.weight_decay) : 1.0f;
  s.l2 = decoupled ? 0.0f : static_cast<float>(u.weight_decay);
  s.grad_scale = static_cast<float>(u.factor);
  return {f32_on(u.device, u.p),        f32_on(u.device, u.g), f32_on(u.device, u.slots[0]),
          f32_on(u.device, u.slots[1]), u.p.count(),           s};
}
template <bool decoupled>
void adam(std::span<const Update> all) {
  std::vector<kernels::AdamW> updates;
  for (const Update& u : all) updates.push_back(adam_of(u, decoupled));
  if (!all.empty()) all[0].device.adamw({updates.data(), static_cast<int64_t>(updates.size())});
}

}  // namespace

const std::vector<Rule>& rules() {
  // names; beta1, beta2, eps, momentum
  static const std::vector<Rule> table = {
      {{"sgd"}, 0, 0, 0, 0, no_slots, simple<UpdateKind::kSgd, true>},
      {{"momentum", "sgd_momentum"}, 0, 0, 0, 0.9, momentum_slots, simple<UpdateKind::kMomentum, true>},
      {{"nesterov", "sgd_nesterov"}, 0, 0, 0, 0.9, momentum_slots, simple<UpdateKind::kNesterov, true>},
      {{"adagrad"}, 0, 0, 1e-10, 0, adagrad_slots, simple<UpdateKind::kAdagrad, true>},
      {{"rmsprop"}, 0, 0.99, 1e-8, 0, rmsprop_slots, simple<UpdateKind::kRmsprop, true>},
      {{"adam"}, 0.9, 0.999, 1e-8, 0, adam_slots, adam<false>},
      {{"adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf"},
       0.9,
       0.999,
       1e-8,
       0,
       adam_slots,
       adam<true>},
      {{"adafactor"}, 0, 0, 0, 0, adafactor_slots, adafactor},
      {{"lion", "lion_32bit"}, 0.9, 0.99, 0, 0, lion_slots, simple<UpdateKind::kLion, false>},
      {{"muon"}, 0.9, 0.999, 1e-8, 0.95, muon_slots, muon},
  };
  return table;
}

Result<const Rule*> find_rule(const std::string& name) {
  for (const Rule& rule : rules())
    for (const std::string& known : rule.names)
      if (known == name) return &rule;
  const auto known = optimizer_names();
  return error_at("optimizer", "unknown optimizer '{}'{}; expected one of: {}", name,
                  did_you_mean(name, known), fmt::join(known, ", "));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Rule& rule : rules()) names.insert(names.end(), rule.names.begin(), rule.names.end());
  return names;
}

}  // namespace makar
