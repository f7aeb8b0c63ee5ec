#include "train/reference.h"

#include <unordered_set>

namespace makar {
namespace {

// Exchanges the values of parameters with copies, and back in the destructor.
class Exchanged {
 public:
  explicit Exchanged(const std::vector<std::pair<Parameter*, Tensor>>& copies) {
    for (const auto& [p, copy] : copies) trained_.emplace_back(p, std::exchange(p->value, copy));
  }
  ~Exchanged() {
    for (auto& [p, value] : trained_) p->value = std::move(value);
  }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  std::vector<std::pair<Parameter*, Tensor>> trained_;
};

}  // namespace

Result<Reference> Reference::without_adapter(Model& model, DType activations) {
  std::unordered_set<const Parameter*> adapters;
  model.each_linear([&](const std::string&, Linear& linear) {
    if (const Adapter* a = linear.adapter()) adapters.insert({a->a, a->b, a->magnitude});
  });
  if (adapters.empty())
    return error_at("reference", "the model has no adapter; load a second copy as the reference");
  for (const auto& p : model.parameters().all())
    if (p->trainable && !p->buffer && !adapters.contains(p.get()))
      return error_at(
          "reference",
          "{} is trained outside of the adapter, so the base model changes; load a second copy as "
          "the reference, or train the adapter only",
          p->name);
  Reference out(model, activations);
  out.without_adapters_ = true;
  return out;
}

Reference Reference::copy_of(Model& model, Device& device, DType activations) {
  model.parameters().to(device.memory());
  Reference out(model, activations);
  for (const auto& p : model.parameters().all())
    if (p->trainable && !p->buffer) out.copies_.emplace_back(p.get(), p->value.clone());
  return out;
}

ScoredTokens Reference::log_probabilities(Device& device, const Batch& batch,
                                          const std::vector<float>& mask) const {
  const Exchanged exchanged(copies_);
  Context ctx{device};
  ctx.without_adapters = without_adapters_;
  ctx.activations = activations_;
  ForwardContext f{ctx};
  return token_log_probabilities(f, model_, batch, mask);
}

}  // namespace makar
