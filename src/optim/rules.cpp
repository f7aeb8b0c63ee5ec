#include "optim/rules.h"

#include <cmath>

#include "base/nearest.h"
#include "kernels/kernels.h"

namespace makar {
namespace {

std::vector<Slot> no_slots(const Shape&) { return {}; }
std::vector<Slot> momentum_slots(const Shape& s) { return {{"momentum_buffer", s}}; }
std::vector<Slot> adagrad_slots(const Shape& s) { return {{"sum", s}}; }
std::vector<Slot> rmsprop_slots(const Shape& s) { return {{"square_avg", s}}; }
std::vector<Slot> adam_slots(const Shape& s) { return {{"exp_avg", s}, {"exp_avg_sq", s}}; }
std::vector<Slot> lion_slots(const Shape& s) { return {{"exp_avg", s}}; }

// body(i, gradient) for each element; the gradient comes scaled and with L2 decay, as PyTorch's older rules
// add it.
template <class F>
void each(const Update& u, bool l2, F&& body) {
  const float *g = u.g.f32(), *p = u.p.f32();
  const float factor = static_cast<float>(u.factor), decay = l2 ? static_cast<float>(u.weight_decay) : 0.0f;
  u.pool.for_ranges(u.p.count(), 16384, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) body(i, decay != 0.0f ? g[i] * factor + decay * p[i] : g[i] * factor);
  });
}

void sgd(const Update& u) {
  float* p = u.p.f32();
  const float lr = static_cast<float>(u.lr);
  each(u, true, [=](int64_t i, float g) { p[i] -= lr * g; });
}

// v = mu v + g; p -= lr v, or with Nesterov's look ahead p -= lr (g + mu v). The first v is g.
template <bool nesterov>
void momentum(const Update& u) {
  float *p = u.p.f32(), *v = u.slots[0].f32();
  const float lr = static_cast<float>(u.lr), mu = static_cast<float>(u.momentum);
  const bool first = u.step == 1;
  each(u, true, [=](int64_t i, float g) {
    v[i] = first ? g : mu * v[i] + g;
    p[i] -= lr * (nesterov ? g + mu * v[i] : v[i]);
  });
}

void adagrad(const Update& u) {
  float *p = u.p.f32(), *sum = u.slots[0].f32();
  const float lr = static_cast<float>(u.lr), eps = static_cast<float>(u.eps);
  each(u, true, [=](int64_t i, float g) {
    sum[i] += g * g;
    p[i] -= lr * g / (std::sqrt(sum[i]) + eps);
  });
}

void rmsprop(const Update& u) {
  float *p = u.p.f32(), *square = u.slots[0].f32();
  const float lr = static_cast<float>(u.lr), eps = static_cast<float>(u.eps);
  const float alpha = static_cast<float>(u.beta2), rest = static_cast<float>(1.0 - u.beta2);
  each(u, true, [=](int64_t i, float g) {
    square[i] = alpha * square[i] + rest * g * g;
    p[i] -= lr * g / (std::sqrt(square[i]) + eps);
  });
}

template <bool decoupled>
void adam(const Update& u) {
  const double steps = static_cast<double>(u.step);
  const double first = 1.0 - std::pow(u.beta1, steps), second = 1.0 - std::pow(u.beta2, steps);
  kernels::AdamStep s{};
  s.beta2 = static_cast<float>(u.beta2);
  s.rest1 = static_cast<float>(1.0 - u.beta1), s.rest2 = static_cast<float>(1.0 - u.beta2);
  s.eps = static_cast<float>(u.eps);
  s.step = static_cast<float>(u.lr / first), s.v_scale = static_cast<float>(1.0 / std::sqrt(second));
  s.decay = decoupled ? static_cast<float>(1.0 - u.lr * u.weight_decay) : 1.0f;
  s.l2 = decoupled ? 0.0f : static_cast<float>(u.weight_decay);
  s.grad_scale = static_cast<float>(u.factor);
  float *p = u.p.f32(), *m = u.slots[0].f32(), *v = u.slots[1].f32();
  const float* g = u.g.f32();
  u.pool.for_ranges(u.p.count(), 16384, [&](int64_t i, int64_t end) {
    kernels::cpu().adamw(p + i, g + i, m + i, v + i, end - i, s);
  });
}

// Lion (Chen et al., 2023): the sign of a blend of momentum and gradient.
void lion(const Update& u) {
  float *p = u.p.f32(), *m = u.slots[0].f32();
  const float lr = static_cast<float>(u.lr), decay = static_cast<float>(1.0 - u.lr * u.weight_decay);
  const float b1 = static_cast<float>(u.beta1), r1 = static_cast<float>(1.0 - u.beta1);
  const float b2 = static_cast<float>(u.beta2), r2 = static_cast<float>(1.0 - u.beta2);
  each(u, false, [=](int64_t i, float g) {
    const float blend = b1 * m[i] + r1 * g;
    p[i] = p[i] * decay - (blend > 0.0f ? lr : (blend < 0.0f ? -lr : 0.0f));
    m[i] = b2 * m[i] + r2 * g;
  });
}

}  // namespace

const std::vector<Rule>& rules() {
  // names; beta1, beta2, eps, momentum
  static const std::vector<Rule> table = {
      {{"sgd"}, 0, 0, 0, 0, no_slots, sgd},
      {{"momentum", "sgd_momentum"}, 0, 0, 0, 0.9, momentum_slots, momentum<false>},
      {{"nesterov", "sgd_nesterov"}, 0, 0, 0, 0.9, momentum_slots, momentum<true>},
      {{"adagrad"}, 0, 0, 1e-10, 0, adagrad_slots, adagrad},
      {{"rmsprop"}, 0, 0.99, 1e-8, 0, rmsprop_slots, rmsprop},
      {{"adam"}, 0.9, 0.999, 1e-8, 0, adam_slots, adam<false>},
      {{"adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf"},
       0.9,
       0.999,
       1e-8,
       0,
       adam_slots,
       adam<true>},
      {{"adafactor"}, 0, 0, 0, 0, adafactor_slots, adafactor},
      {{"lion", "lion_32bit"}, 0.9, 0.99, 0, 0, lion_slots, lion},
      {{"muon"}, 0.9, 0.999, 1e-8, 0.95, muon_slots, muon},
  };
  return table;
}

Result<const Rule*> find_rule(const std::string& name) {
  for (const Rule& rule : rules())
    for (const std::string& known : rule.names)
      if (known == name) return &rule;
  const auto known = optimizer_names();
  return error_at("optimizer", "unknown optimiser '{}'{}; known: {}", name, did_you_mean(name, known),
                  fmt::join(known, ", "));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Rule& rule : rules()) names.insert(names.end(), rule.names.begin(), rule.names.end());
  return names;
}

}  // namespace makar
