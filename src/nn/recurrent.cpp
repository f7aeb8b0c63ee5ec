#include "nn/recurrent.h"

#include <algorithm>
#include <numeric>

#include "nn/gathered_adapters.h"
#include "ops/bf16.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {
namespace {

using ops::Activation;

int64_t gates_of(CellKind kind) { return kind == CellKind::kRnn ? 1 : (kind == CellKind::kLstm ? 4 : 3); }

// The rows of a ragged batch, step by step: step t has the t-th tokens of all sequences that are long enough,
// the longest sequence first.
struct Steps {
  std::vector<int64_t> sequences;  // by length
  std::vector<int64_t> sizes;      // sequences in each step
  std::vector<int64_t> rows;       // of the batch, in the order of steps
  std::vector<int64_t> places;     // the inverse of `rows`

  Steps(const std::vector<ops::SequenceRows>& batch, int64_t count, bool reverse)
      : sequences(batch.size()), places(static_cast<size_t>(count), -1) {
    std::iota(sequences.begin(), sequences.end(), 0);
    const auto at = [&](int64_t s) -> const ops::SequenceRows& { return batch[static_cast<size_t>(s)]; };
    std::stable_sort(sequences.begin(), sequences.end(),
                     [&](int64_t a, int64_t b) { return at(a).q_rows > at(b).q_rows; });
    const int64_t longest = batch.empty() ? 0 : at(sequences[0]).q_rows;
    for (int64_t t = 0; t < longest; ++t) {
      int64_t size = 0;
      for (const int64_t s : sequences) {
        if (at(s).q_rows <= t) break;
        const int64_t row = at(s).q_start + (reverse ? at(s).q_rows - 1 - t : t);
        places[static_cast<size_t>(row)] = static_cast<int64_t>(rows.size());
        rows.push_back(row), ++size;
      }
      sizes.push_back(size);
    }
    check(rows.size() == places.size(), "the sequences of a batch must cover its rows");
  }
};

Tensor first_rows(Context& ctx, const Tensor& x, int64_t rows) {
  if (!x.defined() || x.dim(0) == rows) return x;
  return ops::split(ctx, x, {rows, x.dim(0) - rows}, 0)[0];
}

}  // namespace

CellState cell_step(Context& ctx, CellKind kind, const Tensor& from_input, const Tensor& from_state,
                    const CellState& state) {
  using namespace ops;
  const int64_t hidden = state.h.dim(-1);
  const auto apply = [&](const Tensor& x, Activation f) { return activate(ctx, x, f); };
  if (kind == CellKind::kRnn) return {apply(add(ctx, from_input, from_state), Activation::kTanh), {}};
  if (kind == CellKind::kLstm) {
    const auto g = split(ctx, add(ctx, from_input, from_state), {hidden, hidden, hidden, hidden}, -1);
    const Tensor carried = multiply(ctx, apply(g[1], Activation::kSigmoid), state.c);
    const Tensor c =
        add(ctx, carried, multiply(ctx, apply(g[0], Activation::kSigmoid), apply(g[2], Activation::kTanh)));
    return {multiply(ctx, apply(g[3], Activation::kSigmoid), apply(c, Activation::kTanh)), c};
  }
  const auto x = split(ctx, from_input, {2 * hidden, hidden}, -1),
             s = split(ctx, from_state, {2 * hidden, hidden}, -1);
  const auto g = split(ctx, apply(add(ctx, x[0], s[0]), Activation::kSigmoid), {hidden, hidden}, -1);
  const Tensor candidate = apply(add(ctx, x[1], multiply(ctx, g[0], s[1])), Activation::kTanh);
  return {add(ctx, multiply(ctx, subtract(ctx, state.h, candidate), g[1]), candidate), {}};
}

RecurrentLayer::RecurrentLayer(ParameterSet& set, const std::string& name, int64_t width,
                               const BlockSpec& spec)
    : spec_(*spec.recurrent),
      cache_spec_(spec.attention),
      has_source_(spec.cross.has_value()),
      width_(width) {
  const int64_t rows = gates_of(spec_.cell) * spec_.hidden;
  const int64_t in = spec_.separate ? width / 2 : width;
  for (const char* direction : {"forward", "backward"}) {
    if (directions_.size() == 1 && !spec_.bidirectional) break;
    const std::string prefix = name + "." + direction;
    Direction& d = directions_.emplace_back();
    d.ih = Linear(set, prefix + ".ih", in, rows, true);
    d.hh = Linear(set, prefix + ".hh", spec_.hidden, rows, true);
    if (spec_.reads_source) d.context = Linear(set, prefix + ".context", width, rows, false);
  }
  if (!has_source_) return;
  bridge_h_ = Linear(set, name + ".bridge_h", width, spec_.hidden, true);
  if (states() == 2) bridge_c_ = Linear(set, name + ".bridge_c", width, spec_.hidden, true);
  if (spec_.reads_source) attention_ = SourceAttention(set, name + ".align", width, spec);
}

std::vector<Linear*> RecurrentLayer::linears() {
  std::vector<Linear*> out = {&bridge_h_, &bridge_c_};
  for (Direction& d : directions_)
    for (Linear* l : {&d.ih, &d.hh, &d.context}) out.push_back(l);
  for (Linear* l : attention_.linears()) out.push_back(l);
  return out;
}

Tensor RecurrentLayer::bridge_state(Context& ctx, const Source& source) const {
  std::vector<int64_t> starts = {0};
  std::vector<float> shares;
  for (const int64_t length : source.lengths) {
    starts.push_back(starts.back() + length);
    shares.push_back(1.0f / static_cast<float>(std::max<int64_t>(1, length)));
  }
  const Tensor share = Tensor::from({static_cast<int64_t>(shares.size())}, std::span<const float>(shares));
  const Tensor mean =
      ops::scale_rows(ctx, ops::segment_sum(ctx, source.rows, starts), share.to(ctx.device.memory()));
  const Tensor h = ops::activate(ctx, ops::cast_to_f32(ctx, bridge_h_(ctx, mean)), Activation::kTanh);
  if (states() == 1) return h;
  return ops::concat(
      ctx, {h, ops::activate(ctx, ops::cast_to_f32(ctx, bridge_c_(ctx, mean)), Activation::kTanh)}, -1);
}

Tensor RecurrentLayer::first_state(ForwardContext& f, const AttentionInputs& in, int64_t layer,
                                   const Source* source) const {
  Context& ctx = f.ops;
  std::vector<ops::SequenceRows> last;  // the last cached token of each sequence that has one
  bool starts = false;
  for (const ops::SequenceRows& s : in.self.rows) {
    starts = starts || s.past == 0;
    if (s.past > 0)
      last.push_back({static_cast<int64_t>(last.size()), 1, 0, s.past, s.past - 1, s.first_page});
  }
  std::vector<Tensor> parts;
  if (starts && source) {
    const GatheredAdapters scope(ctx, sequence_adapters(ctx, in.self));
    parts.push_back(bridge_state(ctx, *source));
  }
  const int64_t bridged_rows = parts.empty() ? 0 : parts[0].dim(0);
  if (!last.empty()) {
    const Tensor cached = read_rows(f, std::move(last), in.self.pages, cache_spec_, layer);
    const int64_t state_width = states() * spec_.hidden;
    parts.push_back(cached.dim(1) == state_width
                        ? cached
                        : ops::split(ctx, cached, {state_width, cached.dim(1) - state_width}, -1)[0]);
  }
  if (parts.empty()) return {};
  std::vector<int64_t> index;
  int64_t next = bridged_rows;
  for (const ops::SequenceRows& s : in.self.rows)
    index.push_back(s.past > 0 ? next++ : (source ? static_cast<int64_t>(index.size()) : -1));
  return ops::gather_rows(ctx, parts.size() == 1 ? parts[0] : ops::concat(ctx, parts, 0), index);
}

RecurrentLayer::Outputs RecurrentLayer::run(ForwardContext& f, const Direction& d, const Tensor& x,
                                            const AttentionInputs& in, bool reverse, const Tensor& first,
                                            const Source* source) const {
  Context& ctx = f.ops;
  const Steps steps(in.self.rows, x.dim(0), reverse);
  // The input projection of all steps is one product; the recurrent part depends on the previous step.
  const auto inputs =
      ops::split(ctx, ops::gather_rows(ctx, ops::cast_to_f32(ctx, d.ih(ctx, x)), steps.rows), steps.sizes, 0);
  CellState state;
  if (first.defined()) {
    const Tensor ordered = ops::gather_rows(ctx, first, steps.sequences);
    if (states() == 1) state.h = ordered;
    if (states() == 2) {
      const auto h_and_c = ops::split(ctx, ordered, {spec_.hidden, spec_.hidden}, -1);
      state = {h_and_c[0], h_and_c[1]};
    }
  } else {
    const auto count = static_cast<int64_t>(steps.sequences.size());
    state.h = ctx.zeros({count, spec_.hidden});
    if (states() == 2) state.c = ctx.zeros({count, spec_.hidden});
  }
  // Adapters in the order of the steps' sequences.
  const std::vector<int32_t> by_sequence = sequence_adapters(ctx, in.self);
  std::vector<int32_t> adapters;
  for (size_t i = 0; i < by_sequence.size(); ++i)
    adapters.push_back(by_sequence[static_cast<size_t>(steps.sequences[i])]);
  std::vector<Tensor> h, c;
  AlignmentRecord record(f);
  for (size_t t = 0; t < inputs.size(); ++t) {
    state = {first_rows(ctx, state.h, steps.sizes[t]), first_rows(ctx, state.c, steps.sizes[t])};
    const auto size = static_cast<std::ptrdiff_t>(adapters.empty() ? 0 : steps.sizes[t]);
    const GatheredAdapters scope(ctx, {adapters.begin(), adapters.begin() + size});
    Tensor input = inputs[t];
    if (spec_.reads_source) {
      const std::span<const int64_t> active(steps.sequences.data(), static_cast<size_t>(steps.sizes[t]));
      const Tensor context = attention_.step(ctx, state.h, *source, active, record);
      input = ops::add(ctx, input, ops::cast_to_f32(ctx, d.context(ctx, context)));
    }
    state = cell_step(ctx, spec_.cell, input, ops::cast_to_f32(ctx, d.hh(ctx, state.h)), state);
    h.push_back(state.h);
    if (states() == 2) c.push_back(state.c);
  }
  record.finish();
  const auto to_batch_order = [&](const std::vector<Tensor>& all) {
    return ops::gather_rows(ctx, all.size() == 1 ? all[0] : ops::concat(ctx, all, 0), steps.places);
  };
  Outputs out{to_batch_order(h), {}};
  if (f.cache && states() == 2) out.c = to_batch_order(c);
  return out;
}

Tensor RecurrentLayer::operator()(ForwardContext& f, const Tensor& x, const AttentionInputs& in,
                                  int64_t layer) const {
  Context& ctx = f.ops;
  check(!f.cache || directions_.size() == 1, "a bidirectional layer has no cache");
  std::optional<Source> source;
  if (has_source_) source = source_of(f, in, cache_spec_, width_, layer);
  if (spec_.reads_source) {
    const GatheredAdapters scope(ctx, source_adapters(ctx, in.self, source->lengths));
    attention_.prepare(ctx, *source);
  }
  const Source* from = source ? &*source : nullptr;
  const Tensor first = first_state(f, in, layer, from);
  const Tensor rows = ops::cast_to_f32(ctx, x);
  if (directions_.size() == 1) {
    const Outputs out = run(f, directions_[0], rows, in, false, first, from);
    if (f.cache) {
      const Tensor state = out.c.defined() ? ops::concat(ctx, {out.h, out.c}, -1) : out.h;
      write_rows(f, state, in.self, cache_spec_, layer);
    }
    return out.h;
  }
  std::vector<Tensor> halves = {rows, rows};
  if (spec_.separate) halves = ops::split(ctx, rows, {width_ / 2, width_ / 2}, -1);
  const Tensor forward_h = run(f, directions_[0], halves[0], in, false, {}, nullptr).h;
  const Tensor backward_h = run(f, directions_[1], halves[1], in, true, {}, nullptr).h;
  return ops::concat(ctx, {forward_h, backward_h}, -1);
}

}  // namespace makar
