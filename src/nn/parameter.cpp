#include "nn/parameter.h"

namespace makar {

Parameter* ParameterSet::add(const std::string& name, const Shape& shape) {
  check(!names_.contains(name), "a parameter is declared twice: " + name);
  all_.push_back(std::make_unique<Parameter>());
  Parameter* p = all_.back().get();
  p->name = name, p->shape = shape;
  names_[name] = p;
  return p;
}

Parameter* ParameterSet::find(const std::string& name) const {
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : it->second;
}

int64_t ParameterSet::count() const {
  int64_t n = 0;
  for (const auto& p : all_)
    if (!p->buffer && !p->auxiliary) n += p->shape.count();
  return n;
}

void ParameterSet::to(Memory& memory) const {
  for (const auto& p : all_)
    if (p->value.defined()) p->value = p->value.to(memory);
}

void ParameterSet::watch(Tape& tape) const {
  for (const auto& p : all_)
    if (p->trainable && !p->buffer) tape.watch(p->value, p->grad);
}

void ParameterSet::collect(const Tape& tape) const {
  for (const auto& p : all_) {
    if (!p->trainable || p->buffer) continue;
    p->grad = tape.gradient(p->value);
    if (p->of_expert && !p->grad.defined()) p->grad = Tensor::zeros(p->shape, DType::kF32, p->value.memory());
  }
}

void ParameterSet::clear_gradients() const {
  for (const auto& p : all_) p->grad = Tensor();
}

}  // namespace makar
