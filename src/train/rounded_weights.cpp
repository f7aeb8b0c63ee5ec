#include "train/rounded_weights.h"

namespace makar {

RoundedWeights::RoundedWeights(const TrainedModels& models, const RoundWeight& round) {
  if (!round) return;
  for (const auto& p : models.main().parameters().all()) {
    if (!p->trainable || p->buffer) continue;
    const Tensor rounded = round(*p);
    if (!rounded.defined()) continue;
    check(rounded.shape() == p->shape && rounded.dtype() == DType::kF32, "a rounded weight keeps its shape");
    exact_.emplace_back(p.get(), p->value);
    p->value = rounded.to(p->value.memory());
  }
}

RoundedWeights::~RoundedWeights() {
  for (auto& [p, value] : exact_) p->value = std::move(value);
}

}  // namespace makar
