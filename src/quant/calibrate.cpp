#include "quant/calibrate.h"

#include <algorithm>

#include "models/gguf_architecture.h"

namespace makar {
namespace {

struct Seen {
  std::vector<double> squares, xx;
  int64_t rows = 0;
};

class Gatherer : public LinearObserver {
 public:
  Gatherer(ThreadPool& pool, bool together) : pool_(pool), together_(together) {}

  void see(const Tensor& w, const Tensor& x) override {
    const int64_t columns = x.dim(-1), rows = columns ? x.count() / columns : 0;
    Seen& seen = seen_[w.id()];
    seen.squares.resize(static_cast<size_t>(columns));
    if (together_) seen.xx.resize(static_cast<size_t>(columns * columns));
    seen.rows += rows;
    // Threads own columns, so the sums do not depend on their number.
    pool_.for_ranges(columns, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = x.f32() + r * columns;
        for (int64_t c = begin; c < end; ++c) {
          seen.squares[static_cast<size_t>(c)] += static_cast<double>(row[c]) * row[c];
          if (!together_) continue;
          double* to = seen.xx.data() + c * columns;
          const double value = row[c];
          for (int64_t d = 0; d < columns; ++d) to[d] += value * row[d];
        }
      }
    });
  }
  const std::map<uint64_t, Seen>& all() const { return seen_; }

 private:
  ThreadPool& pool_;
  bool together_;
  std::map<uint64_t, Seen> seen_;
};

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
    Seen sum;  // several parameters of one tensor (experts, fused projections) count by the rows they saw
    for (const Parameter* p : slice.ours) {
      const auto it = gatherer.all().find(p->value.id());
      if (it == gatherer.all().end()) continue;
      sum.rows += it->second.rows;
      sum.squares.resize(it->second.squares.size());
      sum.xx.resize(it->second.xx.size());
      for (size_t i = 0; i < sum.squares.size(); ++i) sum.squares[i] += it->second.squares[i];
      for (size_t i = 0; i < sum.xx.size(); ++i) sum.xx[i] += it->second.xx[i];
    }
    if (sum.rows == 0) continue;
    std::vector<float> importance;
    double mean = 0;
    for (const double s : sum.squares) mean += s / static_cast<double>(sum.rows);
    mean /= static_cast<double>(sum.squares.size());
    // A column that the sample never used still matters a little.
    for (const double s : sum.squares)
      importance.push_back(static_cast<float>(s / static_cast<double>(sum.rows) + 1e-3 * mean + 1e-12));
    for (double& v : sum.xx) v /= static_cast<double>(sum.rows);
    out.importance.emplace(slice.theirs, std::move(importance));
    if (options.together) out.xx.emplace(slice.theirs, std::move(sum.xx));
  }
  return out;
}

}  // namespace makar
