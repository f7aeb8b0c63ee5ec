#include "nn/feed_forward.h"

#include <algorithm>
#include <limits>
#include <numeric>

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

Tensor FeedForward::Expert::run(Context& ctx, const Tensor& x, const FeedForwardSpec& spec) const {
  if (!spec.gated) {
    const bool sharp = spec.sharpness != 1.0f;
    const Tensor projected = up(ctx, x);
    Tensor hidden =
        ops::activate(ctx, sharp ? ops::scale(ctx, projected, spec.sharpness) : projected, spec.activation);
    if (sharp) hidden = ops::scale(ctx, hidden, 1.0f / spec.sharpness);
    return down(ctx, spec.squared ? ops::activate(ctx, hidden, Activation::kSquare) : hidden);
  }
  const std::vector<Tensor> gate_and_up = Linear::together(ctx, x, {&gate, &up});
  return down(ctx, spec.gate_limit > 0 ? clamped_gate(ctx, gate_and_up[0], gate_and_up[1], spec.gate_limit)
                                       : ops::gated(ctx, gate_and_up[0], gate_and_up[1], spec.activation));
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

// The indices of the k largest values, largest first; ties by index.
static std::vector<int64_t> largest(const std::vector<float>& values, int64_t k) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int64_t a, int64_t b) {
    const float x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
  order.resize(static_cast<size_t>(k));
  return order;
}

// Keeps the scores of the best groups of experts and sets the others to 0. A group's score is that of its
// best expert; with a sigmoid router, the sum of its best two.
static void keep_best_groups(std::vector<float>& scores, const FeedForwardSpec& spec) {
  const auto size = static_cast<int64_t>(scores.size()) / spec.expert_groups;
  std::vector<float> groups;
  for (int64_t g = 0; g < spec.expert_groups; ++g) {
    const std::vector<float> group_scores(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    float total = 0;
    for (const int64_t i : largest(group_scores, std::min<int64_t>(size, spec.sigmoid_router ? 2 : 1)))
      total += group_scores[static_cast<size_t>(i)];
    groups.push_back(total);
  }
  const std::vector<int64_t> best_groups = largest(groups, spec.groups_per_token);
  for (int64_t g = 0; g < spec.expert_groups; ++g)
    if (std::find(best_groups.begin(), best_groups.end(), g) == best_groups.end())
      std::fill_n(scores.begin() + g * size, size, 0.0f);
}

std::vector<int64_t> FeedForward::choose(const Tensor& probabilities) const {
  const int64_t rows = probabilities.dim(0), count = spec_.experts;
  const Tensor host_probabilities = probabilities.host();
  const Tensor correction = correction_ ? correction_->value.host() : Tensor();
  std::vector<int64_t> out;
  for (int64_t r = 0; r < rows; ++r) {
    const float* p = host_probabilities.f32() + r * count;
    std::vector<float> scores(p, p + count);
    if (correction.defined())
      for (int64_t e = 0; e < count; ++e) scores[static_cast<size_t>(e)] += correction.f32()[e];
    if (spec_.expert_groups > 1) keep_best_groups(scores, spec_);
    const std::vector<int64_t> best = largest(scores, spec_.experts_per_token);
    out.insert(out.end(), best.begin(), best.end());
  }
  return out;
}

// Routes each token to its k most probable experts, with their probabilities as weights, renormalised over
// those k where the spec says so. Each token's outputs are summed in expert order, so the result does not
// depend on other tokens.
Tensor FeedForward::run_experts(ForwardContext& f, const Tensor& x) const {
  Context& ctx = f.ops;
  const int64_t rows = x.dim(0), count = spec_.experts, k = spec_.experts_per_token;
  const Tensor logits = ops::cast_to_f32(ctx, router(ctx, x));  // [rows, experts], scored in f32
  const Tensor probabilities =
      spec_.sigmoid_router ? ops::activate(ctx, logits, Activation::kSigmoid) : ops::softmax(ctx, logits);
  // Routing is decided on the host; rows are gathered per expert.
  const std::vector<int64_t> choices = choose(probabilities);
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
