#include "ops/tape.h"

namespace makar {

void Tape::watch(const Tensor& leaf, const Tensor& into) {
  leaves_[leaf.id()] = true;
  if (into.defined()) {
    check(into.shape() == leaf.shape(), "a gradient must have the shape of its leaf");
    gradients_[leaf.id()] = into;
  }
}

bool Tape::needs(const Key& t) const { return t.id != 0 && (tracked_.contains(t.id) || is_leaf(t.id)); }

void Tape::record(std::span<const Tensor> outputs, Backward backward) {
  Record r;
  for (const Tensor& t : outputs) {
    r.outputs.push_back(t.id());
    tracked_[t.id()] = true;
  }
  r.backward = std::move(backward);
  records_.push_back(std::move(r));
}

void Tape::record(const Tensor& output, std::function<void(const Tensor&)> backward) {
  record(std::span(&output, 1), [f = std::move(backward)](std::span<const Tensor> g) { f(g[0]); });
}

Tape::Target Tape::target(const Key& t) {
  const uint64_t id = t.id;
  if (parent_ && !tracked_.contains(id) && !leaves_.contains(id)) return parent_->target(t);
  Tensor& slot = gradients_[id];
  if (!slot.defined()) return {slot = Tensor::empty(t.shape, t.type, device_.memory()), false};
  // A leaf buffer provided by the caller is shared on purpose; any other shared buffer must be cloned before
  // writing.
  if (!leaves_.contains(id) && !slot.exclusive()) slot = slot.clone();
  take_notes(slot);
  return {slot, true};
}

void Tape::pass(const Key& t, const Tensor& gradient) {
  if (!needs(t)) return;
  const uint64_t id = t.id;
  const bool on_this_tape = !parent_ || tracked_.contains(id) || leaves_.contains(id);
  if (on_this_tape && !gradients_.contains(id) && !leaves_.contains(id)) {
    gradients_[id] = gradient;
    return;
  }
  Target to = target(t);
  check(gradient.dtype() == to.buffer.dtype(), "a gradient must have the type of its tensor");
  std::byte *sum = address_on(device_, to.buffer), *term = address_on(device_, gradient);
  if (!to.accumulate)
    device_.memory().copy(sum, term, gradient.bytes());
  else if (gradient.dtype() == DType::kBF16)
    device_.convert({term, DType::kBF16, sum, DType::kBF16, gradient.count(), nullptr, true});
  else
    device_.add({f32_on(device_, to.buffer), f32_on(device_, gradient), f32_on(device_, to.buffer), 1,
                 gradient.count(), false});
}

void Tape::give(const Key& t, const Tensor& gradient) {
  const bool is_first_of_leaf = leaves_.contains(t.id) && !gradients_.contains(t.id);
  if (!is_first_of_leaf) return pass(t, gradient);
  gradients_[t.id] = gradient;
}

void Tape::note(const Tensor& gradient, Notes notes) {
  if (parent_) return parent_->note(gradient, std::move(notes));
  notes_[gradient.id()] = std::move(notes);
}

Tape::Notes Tape::take_notes(const Tensor& gradient) {
  if (parent_) return parent_->take_notes(gradient);
  const auto found = notes_.find(gradient.id());
  if (found == notes_.end()) return {};
  Notes notes = std::move(found->second);
  notes_.erase(found);
  return notes;
}

void Tape::backward(const Tensor& loss, Tensor gradient) {
  if (!gradient.defined()) {
    check(loss.count() == 1, "backward without a gradient needs a scalar loss");
    gradient = Tensor::full(loss.shape(), 1.0f).to(device_.memory());
  }
  pass(loss, gradient);
  gradient = {};
  while (!records_.empty()) {
    Record r = std::move(records_.back());
    records_.pop_back();
    std::vector<Tensor> gradients;
    bool any = false;
    for (const uint64_t id : r.outputs) {
      const auto it = gradients_.find(id);
      Tensor g;
      if (it != gradients_.end()) {
        g = std::move(it->second);
        gradients_.erase(it);
        any = true;
      }
      tracked_.erase(id);
      gradients.push_back(std::move(g));
    }
    if (!any) continue;
    r.backward(gradients);
    for (const Tensor& g : gradients)
      if (g.defined()) take_notes(g);  // nobody else asks for them
  }
}

Tensor Tape::gradient(const Tensor& leaf) const {
  const auto it = gradients_.find(leaf.id());
  return it == gradients_.end() ? Tensor() : it->second;
}

}  // namespace makar
