#include "nn/feed_forward.h"

#include <algorithm>
#include <limits>

#include "ops/bf16.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {

FeedForward::FeedForward(ParameterSet& set, const std::string& name, int64_t width,
                         const FeedForwardSpec& spec)
    : spec_(spec) {
  const auto make = [&](const std::string& at, int64_t inner, bool bias) {
    Expert e;
    if (spec.gated) e.gate = Linear(set, at + ".gate", width, inner, bias);
    e.up = Linear(set, at + ".up", width, inner, bias);
    e.down = Linear(set, at + ".down", inner, width, bias);
    return e;
  };
  if (spec.experts == 0) {
    experts.push_back(make(name, spec.width, spec.bias));
    return;
  }
  router = Linear(set, name + ".router", width, spec.experts, spec.router_bias);
  if (spec.sigmoid_router)
    correction_ = set.add(name + ".router_correction", {spec.experts}), correction_->buffer = true;
  for (int64_t i = 0; i < spec.experts; ++i) {
    experts.push_back(make(fmt::format("{}.experts.{}", name, i), spec.width, spec.bias));
    for (const Linear* l : {&experts.back().gate, &experts.back().up, &experts.back().down})
      for (Parameter* p : {l->weight(), l->bias()})
        if (p) p->of_expert = true;
  }
  if (spec.shared_width > 0) shared = make(name + ".shared", spec.shared_width, spec.shared_bias);
  if (spec.shared_gate) shared_gate = Linear(set, name + ".shared_gate", width, 1, false);
}

namespace {

constexpr float kGateSlope = 1.702f;

// gpt-oss: (up + 1) * gate * sigmoid(1.702 gate), with gate <= limit and |up| <= limit (clamped).
Tensor clamped_gate(Context& ctx, const Tensor& gate, const Tensor& up, float limit) {
  const Tensor g = ops::clamp(ctx, gate, -std::numeric_limits<float>::max(), limit);
  const Tensor swish =
      ops::multiply(ctx, g, ops::activate(ctx, ops::scale(ctx, g, kGateSlope), Activation::kSigmoid));
  return ops::multiply(ctx, ops::shift(ctx, ops::clamp(ctx, up, -limit, limit), 1.0f), swish);
}

}  // namespace

// The input of the down projection, from the up projection and, if there is one, the gate.
static Tensor hidden_of(Context& ctx, const Tensor& gate, const Tensor& up, const FeedForwardSpec& spec) {
  if (spec.gated)
    return spec.gate_limit > 0 ? clamped_gate(ctx, gate, up, spec.gate_limit)
                               : ops::gated(ctx, gate, up, spec.activation);
  const bool sharp = spec.sharpness != 1.0f;
  Tensor hidden = ops::activate(ctx, sharp ? ops::scale(ctx, up, spec.sharpness) : up, spec.activation);
  if (sharp) hidden = ops::scale(ctx, hidden, 1.0f / spec.sharpness);
  return spec.squared ? ops::activate(ctx, hidden, Activation::kSquare) : hidden;
}

Tensor FeedForward::Expert::run(Context& ctx, const Tensor& x, const FeedForwardSpec& spec) const {
  if (!spec.gated) return down(ctx, hidden_of(ctx, {}, up(ctx, x), spec));
  const std::vector<Tensor> gate_and_up = Linear::together(ctx, x, {&gate, &up});
  return down(ctx, hidden_of(ctx, gate_and_up[0], gate_and_up[1], spec));
}

Tensor FeedForward::operator()(ForwardContext& f, const Tensor& x) const {
  Context& ctx = f.ops;
  if (spec_.experts == 0) return experts[0].run(ctx, x, spec_);
  const Tensor y = run_experts(f, x);
  if (!shared.up.defined()) return y;
  Tensor z = shared.run(ctx, x, spec_);
  if (shared_gate.defined())
    z = ops::scale_rows(ctx, z, ops::activate(ctx, shared_gate(ctx, x), Activation::kSigmoid));
  return ops::add(ctx, y, z);
}

std::vector<std::vector<Linear*>> FeedForward::expert_layers() {
  std::vector<std::vector<Linear*>> out;
  if (spec_.experts == 0) return out;
  for (Linear Expert::*layer : {&Expert::gate, &Expert::up, &Expert::down}) {
    if (!(experts[0].*layer).defined()) continue;
    out.emplace_back();
    for (Expert& e : experts) out.back().push_back(&(e.*layer));
  }
  return out;
}

bool FeedForward::routes_on_device() const {
  return std::ranges::all_of(experts, [](const Expert& e) {
    return (!e.gate.defined() || e.gate.packed_together()) && e.up.packed_together() &&
           e.down.packed_together();
  });
}

ops::RoutingOptions FeedForward::routing() const {
  return {spec_.experts_per_token, spec_.expert_groups, spec_.groups_per_token,
          spec_.sigmoid_router,    spec_.normalized,    spec_.routed_scale};
}

Tensor FeedForward::probabilities(Context& ctx, const Tensor& x) const {
  const Tensor logits = ops::cast_to_f32(ctx, router(ctx, x));
  return spec_.sigmoid_router ? ops::activate(ctx, logits, Activation::kSigmoid) : ops::softmax(ctx, logits);
}

Tensor FeedForward::run_together(Context& ctx, const Tensor& x) const {
  const ops::Routing r =
      ops::route(ctx, probabilities(ctx, x), correction_ ? correction_->value : Tensor(), routing());
  const auto layer_of = [&](Linear Expert::*layer) {
    ops::ExpertLayer out;
    for (const Expert& e : experts) {
      const ops::PackedLayer one = (e.*layer).layer();
      out.weights.push_back(one.packed);
      if (one.bias.defined()) out.biases.push_back(one.bias);
    }
    return out;
  };
  std::vector<ops::ExpertLayer> first;
  if (spec_.gated) first.push_back(layer_of(&Expert::gate));
  first.push_back(layer_of(&Expert::up));
  const std::vector<Tensor> inner = ops::expert_linears(ctx, x, true, r, first);
  const Tensor hidden = hidden_of(ctx, spec_.gated ? inner[0] : Tensor(), inner.back(), spec_);
  const ops::ExpertLayer down[] = {layer_of(&Expert::down)};
  return ops::add_experts(ctx, ops::expert_linears(ctx, hidden, false, r, down)[0], r);
}

// Routes each token to its k most probable experts, with their probabilities as weights, renormalised over
// those k where the spec says so. Each token's outputs are summed in expert order, so the result does not
// depend on other tokens.
Tensor FeedForward::run_experts(ForwardContext& f, const Tensor& x) const {
  Context& ctx = f.ops;
  if (!ctx.tape && !ctx.observer && !f.record && ctx.row_adapters.empty() && routes_on_device())
    return run_together(ctx, x);
  const int64_t rows = x.dim(0), count = spec_.experts, k = spec_.experts_per_token;
  const Tensor probabilities = this->probabilities(ctx, x);
  const std::vector<int64_t> choices =
      ops::choose_experts(ctx, probabilities, correction_ ? correction_->value : Tensor(), routing());
  if (f.record) {
    f.record->router_probabilities.push_back(probabilities);
    f.record->router_choices.push_back(choices);
  }
  // weights [k * rows]: slot s of row r is at s * rows + r.
  std::vector<Tensor> expert_weights;
  Tensor total;
  for (int64_t s = 0; s < k; ++s) {
    std::vector<int64_t> column(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r)
      column[static_cast<size_t>(r)] = choices[static_cast<size_t>(r * k + s)];
    expert_weights.push_back(ops::pick(ctx, probabilities, column));
    total = total.defined() ? ops::add(ctx, total, expert_weights.back()) : expert_weights.back();
  }
  if (spec_.normalized)
    for (Tensor& p : expert_weights) p = ops::divide(ctx, p, total);
  if (spec_.routed_scale != 1.0f)
    for (Tensor& p : expert_weights) p = ops::scale(ctx, p, spec_.routed_scale);
  const Tensor weights = ops::reshape(ctx, ops::concat(ctx, expert_weights, 0), {k * rows, 1});

  std::vector<Tensor> parts;
  std::vector<int64_t> part_rows;
  const auto row_adapters = ctx.row_adapters;
  for (int64_t e = 0; e < count; ++e) {
    std::vector<int64_t> tokens, slots;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t s = 0; s < k; ++s)
        if (choices[static_cast<size_t>(r * k + s)] == e) tokens.push_back(r), slots.push_back(s * rows + r);
    if (tokens.empty()) continue;
    std::vector<int32_t> adapters;
    if (!row_adapters.empty())
      for (const int64_t r : tokens) adapters.push_back(row_adapters[static_cast<size_t>(r)]);
    ctx.row_adapters = adapters;
    const Tensor out = experts[static_cast<size_t>(e)].run(ctx, ops::gather_rows(ctx, x, tokens), spec_);
    ctx.row_adapters = row_adapters;
    parts.push_back(ops::scale_rows(ctx, out, ops::gather_rows(ctx, weights, slots)));
    part_rows.insert(part_rows.end(), tokens.begin(), tokens.end());
  }
  if (parts.empty()) return ctx.zeros(x.shape());
  return ops::scatter_rows(ctx, parts.size() == 1 ? parts[0] : ops::concat(ctx, parts, 0), part_rows, rows);
}

Tensor load_balancing_loss(Context& ctx, const Record& record, int64_t experts) {
  const Tensor probabilities =
      ops::concat(ctx, record.router_probabilities, 0);  // [layers * tokens, experts]
  const int64_t rows = probabilities.dim(0);
  Tensor share = Tensor::zeros({experts});
  for (const auto& layer : record.router_choices)
    for (const int64_t e : layer) share.f32()[e] += 1.0f;
  for (int64_t e = 0; e < experts; ++e)
    share.f32()[e] *= static_cast<float>(experts) / static_cast<float>(rows);
  const Tensor mean =
      ops::scale(ctx, ops::segment_sum(ctx, probabilities, {0, rows}), 1.0f / static_cast<float>(rows));
  return ops::sum(ctx, ops::multiply(ctx, mean, share.to(ctx.device.memory())));
}

}  // namespace makar
