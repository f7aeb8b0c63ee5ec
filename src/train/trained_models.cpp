#include "train/trained_models.h"

#include <set>

#include "optim/gradient_norm.h"

namespace makar {
namespace {

std::string prefix_of(const TrainedModel& m) { return m.name.empty() ? "" : m.name + "/"; }

}  // namespace

TrainedModels::TrainedModels(std::vector<TrainedModel> models) : all_(std::move(models)) {
  check(!all_.empty() && all_.front().name.empty(), "the first model is the main one and has no name");
  std::set<std::string> names;
  for (const TrainedModel& m : all_)
    check(m.model && m.name.find('/') == std::string::npos && names.insert(m.name).second,
          "trained models have different names without '/'");
}

void TrainedModels::each_parameter(const std::function<void(const std::string&, Parameter&)>& visit) const {
  for (const TrainedModel& m : all_)
    for (const auto& p : m.model->parameters().all())
      if (p->trainable && !p->buffer) visit(prefix_of(m) + p->name, *p);
}

void TrainedModels::to(Memory& memory) const {
  for (const TrainedModel& m : all_) m.model->parameters().to(memory);
}

void TrainedModels::watch(Tape& tape) const {
  for (const TrainedModel& m : all_) m.model->parameters().watch(tape);
}

void TrainedModels::collect(const Tape& tape) const {
  for (const TrainedModel& m : all_) m.model->parameters().collect(tape);
}

void TrainedModels::clear_gradients() const {
  for (const TrainedModel& m : all_) m.model->parameters().clear_gradients();
}

double TrainedModels::gradient_norm(Device& device) const {
  std::vector<Tensor> gradients;
  each_parameter([&](const std::string&, const Parameter& p) {
    if (p.grad.defined()) gradients.push_back(p.grad);
  });
  return makar::gradient_norm(device, gradients);
}

Result<Optimizers> Optimizers::make(const TrainedModels& models, const LoopSettings& settings) {
  Optimizers out;
  for (const TrainedModel& m : models.all()) {
    MAKAR_TRY(Optimizer optimizer, Optimizer::make(m.model->parameters(), optimizer_of(settings, *m.model)));
    out.all_.push_back({prefix_of(m), m.lr_scale, std::move(optimizer)});
  }
  return out;
}

void Optimizers::step(Device& device, double lr, double gradient_factor) {
  for (Entry& e : all_) e.optimizer.step(device, lr * e.lr_scale, gradient_factor);
}

std::vector<std::pair<std::string, Tensor>> Optimizers::state() const {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const Entry& e : all_)
    for (auto& [name, tensor] : e.optimizer.state()) out.emplace_back(e.prefix + name, tensor);
  return out;
}

Status Optimizers::restore(const std::map<std::string, Tensor>& state) {
  std::map<std::string, std::map<std::string, Tensor>> by_prefix;
  for (const auto& [name, tensor] : state) {
    const size_t slash = name.find('/');
    const size_t length = slash == std::string::npos ? 0 : slash + 1;
    by_prefix[name.substr(0, length)][name.substr(length)] = tensor;
  }
  for (Entry& e : all_) {
    MAKAR_RETURN_IF_ERROR(e.optimizer.restore(by_prefix[e.prefix]));
    by_prefix.erase(e.prefix);
  }
  if (by_prefix.empty()) return Done{};
  return error_at("optimizer", "the checkpoint holds the state of a model '{}' that this run does not train",
                  by_prefix.begin()->first);
}

}  // namespace makar
