#include "optim/optimizer.h"

#include <algorithm>

#include "optim/rules.h"

namespace makar {

bool matches(const std::string& pattern, const std::string& name) {
  // Greedy matching with one backtracking point: linear in practice, quadratic at worst.
  size_t p = 0, n = 0, star = std::string::npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, from = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string::npos) {
      p = star + 1, n = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<Optimizer> Optimizer::make(const ParameterSet& parameters, const OptimizerOptions& options) {
  MAKAR_TRY(const Rule* main_rule, find_rule(options.name));
  MAKAR_TRY(const Rule* adamw, find_rule("adamw"));
  const bool is_muon = main_rule->names[0] == "muon";
  Optimizer optimizer(options);
  for (const auto& p : parameters.all()) {
    if (!p->trainable || p->buffer) continue;
    Entry e{p.get(), main_rule, 1.0, p->shape.rank() >= 2 ? options.weight_decay : 0.0, 0, {}};
    const auto takes = [&](const ParameterGroup& g) {
      return g.predicate ? g.predicate(*p) : matches(g.pattern, p->name);
    };
    const auto group = std::find_if(options.groups.begin(), options.groups.end(), takes);
    if (group != options.groups.end()) {
      e.lr_scale = group->lr_scale;
      e.weight_decay = group->weight_decay.value_or(e.weight_decay);
    }
    if (is_muon && (p->shape.rank() != 2 || (options.muon_predicate && !options.muon_predicate(*p))))
      e.rule = adamw;
    optimizer.entries_.push_back(std::move(e));
  }
  return optimizer;
}

void Optimizer::step(Device& device, double lr, double gradient_factor) {
  std::map<const Rule*, std::vector<Update>> by_rule;
  for (Entry& e : entries_) {
    const Tensor &value = e.parameter->value, &grad = e.parameter->grad;
    if (!grad.defined()) continue;
    check(value.dtype() == DType::kF32 && grad.shape() == value.shape(),
          "optimizer: a parameter must be f32, and its gradient must have its shape");
    if (e.steps == 0 && e.slots.empty())
      for (const Slot& slot : e.rule->slots(value.shape()))
        e.slots.push_back(Tensor::zeros(slot.shape, DType::kF32, device.memory()));
    for (Tensor& slot : e.slots) slot = slot.to(device.memory());  // restored slots are on the host
    ++e.steps;
    by_rule[e.rule].push_back({device, value, grad, e.slots, e.steps, lr * e.lr_scale, e.weight_decay,
                               gradient_factor, options_.beta1.value_or(e.rule->beta1),
                               options_.beta2.value_or(e.rule->beta2), options_.eps.value_or(e.rule->eps),
                               options_.momentum.value_or(e.rule->momentum), options_});
  }
  for (const auto& [rule, updates] : by_rule) rule->update(updates);
}

std::vector<std::pair<std::string, Tensor>> Optimizer::state() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const Entry& e : entries_) {
    if (e.steps == 0) continue;
    const int64_t steps[] = {e.steps};
    all.emplace_back(e.parameter->name + ".step", Tensor::from({1}, std::span<const int64_t>(steps)));
    const auto slots = e.rule->slots(e.parameter->shape);
    for (size_t i = 0; i < slots.size(); ++i)
      all.emplace_back(e.parameter->name + "." + slots[i].name, e.slots[i]);
  }
  return all;
}

Status Optimizer::restore(const std::map<std::string, Tensor>& state) {
  std::vector<Entry> restored = entries_;
  size_t used = 0;
  for (Entry& e : restored) {
    e.steps = 0, e.slots.clear();
    const std::string& name = e.parameter->name;
    const auto step = state.find(name + ".step");
    if (step == state.end()) continue;  // the parameter was never updated
    if (step->second.dtype() != DType::kI64 || step->second.count() != 1 || step->second.i64()[0] < 1)
      return error_at(name + ".step", "expected one positive i64 as step count");
    e.steps = step->second.i64()[0];
    ++used;
    for (const Slot& slot : e.rule->slots(e.parameter->shape)) {
      const auto it = state.find(name + "." + slot.name);
      if (it == state.end())
        return error_at(name + "." + slot.name,
                        "optimizer '{}' needs this tensor, which is not in the checkpoint; was it written by "
                        "a different optimizer?",
                        e.rule->names[0]);
      if (it->second.dtype() != DType::kF32 || !(it->second.shape() == slot.shape))
        return error_at(it->first, "expected f32 {}, found {} {}", slot.shape.text(),
                        makar::name(it->second.dtype()), it->second.shape().text());
      e.slots.push_back(it->second.clone());
      ++used;
    }
  }
  if (used != state.size())
    return error_at("optimizer",
                    "{} tensors of the checkpoint do not belong to any parameter of this model; was it "
                    "written by a different optimizer or for another model?",
                    state.size() - used);
  entries_ = std::move(restored);
  return Done{};
}

}  // namespace makar
