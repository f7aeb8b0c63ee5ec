#include "nn/recurrent.h"

#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/shape.h"

namespace makar {
namespace {

using ops::Activation;

int64_t gates_of(CellKind kind) { return kind == CellKind::kRnn ? 1 : (kind == CellKind::kLstm ? 4 : 3); }

// Reorders rows from [outer * inner] to [inner * outer].
Tensor swap_order(Context& ctx, const Tensor& x, int64_t outer, int64_t inner) {
  std::vector<int64_t> index;
  for (int64_t i = 0; i < inner; ++i)
    for (int64_t o = 0; o < outer; ++o) index.push_back(o * inner + i);
  return ops::gather_rows(ctx, x, index);
}

}  // namespace

CellState cell_step(Context& ctx, CellKind kind, const Tensor& from_input, const CellState& state,
                    const Tensor& w_hh, const Tensor& b_hh) {
  using namespace ops;
  const int64_t hidden = state.h.dim(-1);
  const Tensor from_state = linear(ctx, state.h, w_hh, b_hh);
  const auto apply = [&](const Tensor& x, Activation f) { return activate(ctx, x, f); };
  if (kind == CellKind::kRnn) return {apply(add(ctx, from_input, from_state), Activation::kTanh), {}};
  if (kind == CellKind::kLstm) {
    const auto g = split(ctx, add(ctx, from_input, from_state), {hidden, hidden, hidden, hidden}, -1);
    const Tensor kept = multiply(ctx, apply(g[1], Activation::kSigmoid), state.c);
    const Tensor c =
        add(ctx, kept, multiply(ctx, apply(g[0], Activation::kSigmoid), apply(g[2], Activation::kTanh)));
    return {multiply(ctx, apply(g[3], Activation::kSigmoid), apply(c, Activation::kTanh)), c};
  }
  const auto x = split(ctx, from_input, {2 * hidden, hidden}, -1),
             s = split(ctx, from_state, {2 * hidden, hidden}, -1);
  const auto g = split(ctx, apply(add(ctx, x[0], s[0]), Activation::kSigmoid), {hidden, hidden}, -1);
  const Tensor fresh = apply(add(ctx, x[1], multiply(ctx, g[0], s[1])), Activation::kTanh);
  return {add(ctx, multiply(ctx, subtract(ctx, state.h, fresh), g[1]), fresh), {}};
}

Recurrent::Recurrent(ParameterSet& parameters, const std::string& prefix, const RecurrentOptions& o)
    : options_(o) {
  const int64_t ways = o.bidirectional ? 2 : 1, rows = gates_of(o.kind) * o.hidden;
  for (int64_t layer = 0; layer < o.layers; ++layer)
    for (int64_t way = 0; way < ways; ++way) {
      const std::string end = "_l" + std::to_string(layer) + (way ? "_reverse" : "");
      const int64_t width = layer == 0 ? o.input : ways * o.hidden;
      directions_.push_back({parameters.add(prefix + "weight_ih" + end, {rows, width}),
                             parameters.add(prefix + "weight_hh" + end, {rows, o.hidden}),
                             parameters.add(prefix + "bias_ih" + end, {rows}),
                             parameters.add(prefix + "bias_hh" + end, {rows})});
    }
}

Tensor Recurrent::run(Context& ctx, const Direction& d, const Tensor& x, int64_t time, bool reverse,
                      CellState& state) const {
  const int64_t batch = x.dim(0) / time;
  // The input projection of all steps is one product; the recurrent part depends on the previous step.
  const auto steps = ops::split(ctx, ops::linear(ctx, x, d.w_ih->value, d.b_ih->value),
                                std::vector<int64_t>(static_cast<size_t>(time), batch), 0);
  std::vector<Tensor> outputs(static_cast<size_t>(time));
  for (int64_t i = 0; i < time; ++i) {
    const size_t t = static_cast<size_t>(reverse ? time - 1 - i : i);
    state = cell_step(ctx, options_.kind, steps[t], state, d.w_hh->value, d.b_hh->value);
    outputs[t] = state.h;
  }
  return ops::concat(ctx, outputs, 0);
}

Recurrent::Output Recurrent::forward(Context& ctx, const Tensor& x,
                                     const std::vector<CellState>& first) const {
  check(x.rank() == 3 && x.dim(1) > 0 && x.dim(2) == options_.input,
        "recurrent layers take [batch, time, input]");
  check(first.empty() || first.size() == directions_.size(), "one state per layer and direction");
  const int64_t batch = x.dim(0), time = x.dim(1);
  const size_t ways = options_.bidirectional ? 2 : 1;
  Output out;
  Tensor h =
      swap_order(ctx, ops::reshape(ctx, x, {batch * time, x.dim(2)}), batch, time);  // [time * batch, width]
  for (size_t at = 0; at < directions_.size(); at += ways) {
    if (at > 0) h = ops::dropout(ctx, h, options_.dropout);
    std::vector<Tensor> parts;
    for (size_t way = 0; way < ways; ++way) {
      CellState state{ctx.zeros({batch, options_.hidden}), ctx.zeros({batch, options_.hidden})};
      if (!first.empty()) state = first[at + way];
      parts.push_back(run(ctx, directions_[at + way], h, time, way == 1, state));
      out.last.push_back(state);
    }
    h = ways == 1 ? parts[0] : ops::concat(ctx, parts, -1);
  }
  h = swap_order(ctx, h, time, batch);
  out.sequence = ops::reshape(ctx, h, {batch, time, h.dim(1)});
  return out;
}

}  // namespace makar
