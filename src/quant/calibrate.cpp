#include "quant/calibrate.h"

#include <algorithm>
#include <map>
#include <set>

#include "kernels/gemm.h"
#include "models/gguf_architecture.h"

namespace makar {
namespace {

struct Seen {
  std::vector<double> squares;
  Tensor together;
  int64_t rows = 0;
};

class Gatherer : public LinearObserver {
 public:
  Gatherer(ThreadPool& pool, bool together) : pool_(pool), together_(together) {}

  void see(const Tensor& w, const Tensor& x) override {
    // Query, key and value (gate and up) have one input: it is gathered once.
    const uint64_t id = x.id();
    if (id == last_input_) {
      same_[w.id()] = last_weight_;
      return;
    }
    last_input_ = id, last_weight_ = w.id();
    add(x, seen_[w.id()]);
  }
  const Seen* find(const Tensor& w) const {
    const auto same = same_.find(w.id());
    const auto it = seen_.find(same == same_.end() ? w.id() : same->second);
    return it == seen_.end() ? nullptr : &it->second;
  }

 private:
  void add(const Tensor& x, Seen& seen) {
    const int64_t columns = x.dim(-1), rows = columns ? x.count() / columns : 0;
    seen.squares.resize(static_cast<size_t>(columns));
    seen.rows += rows;
    // Threads own columns, so the sums do not depend on their number.
    pool_.for_ranges(columns, 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = begin; c < end; ++c) {
          const double v = x.f32()[r * columns + c];
          seen.squares[static_cast<size_t>(c)] += v * v;
        }
    });
    if (!together_) return;
    if (!seen.together.defined()) seen.together = Tensor::zeros({columns, columns});
    const kernels::Operand along_rows{x.raw(), x.dtype(), 1, columns};
    kernels::gemm(pool_, columns, columns, rows, along_rows, along_rows,
                  {seen.together.f32(), columns, true});
  }

  ThreadPool& pool_;
  bool together_;
  uint64_t last_input_ = 0, last_weight_ = 0;
  std::map<uint64_t, Seen> seen_;
  std::map<uint64_t, uint64_t> same_;
};

// The mean over all that a tensor's parameters (experts, fused projections) saw.
Seen mean_of(const NamedSlice& slice, const Gatherer& gatherer) {
  Seen sum;
  std::set<const Seen*> counted;
  for (const Parameter* p : slice.ours) {
    const Seen* seen = gatherer.find(p->value);
    if (!seen || !counted.insert(seen).second) continue;
    sum.rows += seen->rows;
    sum.squares.resize(seen->squares.size());
    for (size_t i = 0; i < sum.squares.size(); ++i) sum.squares[i] += seen->squares[i];
    if (!seen->together.defined()) continue;
    if (!sum.together.defined()) sum.together = Tensor::zeros(seen->together.shape());
    for (int64_t i = 0; i < sum.together.count(); ++i) sum.together.f32()[i] += seen->together.f32()[i];
  }
  for (double& v : sum.squares) v /= static_cast<double>(sum.rows);
  if (sum.together.defined())
    for (float& v : sum.together.span()) v /= static_cast<float>(sum.rows);
  return sum;
}

void run(const Model& model, const std::vector<int64_t>& ids, ThreadPool& pool, Gatherer& gatherer) {
  Context ctx{pool};
  ctx.observer = &gatherer;
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source.add(ids);
  if (model.encoder() && model.decoder()) inputs.target.add(ids);
  const Tensor h = model.hidden(f, inputs);
  if (model.spec().head.kind == HeadKind::kCausalLm) model.lm_logits(ctx, h);
}

}  // namespace

Result<Calibration> calibrate(const LoadedModel& loaded, const std::vector<int64_t>& ids, ThreadPool& pool,
                              const CalibrateOptions& options) {
  const Model& model = *loaded.model;
  const GgufArchitecture* a = gguf_architecture_of(model.spec().family);
  if (!a)
    return error_of(Error::Kind::kUnsupported, "", "GGUF has no architecture for '{}'", model.spec().family);
  Gatherer gatherer(pool, options.together);
  int64_t window = options.window;
  if (model.spec().max_positions > 0) window = std::min(window, model.spec().max_positions);
  const auto size = static_cast<int64_t>(ids.size());
  for (int64_t at = 0; at < size; at += window)
    run(model, {ids.begin() + at, ids.begin() + std::min(at + window, size)}, pool, gatherer);

  Calibration out;
  out.tokens = size;
  for (const NamedSlice& slice : expand(a->names(model.spec()), model.parameters())) {
    Seen mean = mean_of(slice, gatherer);
    if (mean.rows == 0) continue;
    double level = 0;
    for (const double s : mean.squares) level += s / static_cast<double>(mean.squares.size());
    std::vector<float>& importance = out.importance[slice.theirs];
    // A column that the sample never used still matters a little.
    for (const double s : mean.squares) importance.push_back(static_cast<float>(s + 1e-3 * level + 1e-12));
    if (mean.together.defined()) out.together.emplace(slice.theirs, mean.together);
  }
  return out;
}

}  // namespace makar
