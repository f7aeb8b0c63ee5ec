#include "quant/calibrate.h"

#include <algorithm>
#include <map>
#include <set>

namespace makar {
namespace {

struct InputStats {
  Tensor squares;  // f64 [columns], on the device
  Tensor gram;     // [columns, columns], on the device
  int64_t rows = 0;
};

// The mean over several InputStats, on the host.
struct Mean {
  std::vector<double> squares;
  Tensor gram;
  int64_t rows = 0;
};

class InputCollector : public LinearObserver {
 public:
  // Collects the inputs of these tensors; of all if `only` is empty.
  InputCollector(Device& device, bool gram, std::set<uint64_t> only = {})
      : device_(device), gram_(gram), only_(std::move(only)) {}

  void observe(const Tensor& w, const Tensor& x) override {
    if (!only_.empty() && !only_.contains(w.id())) return;
    // Query, key and value (or gate and up) share one input: it is counted once.
    const uint64_t id = x.id();
    if (id == last_input_) {
      same_input_[w.id()] = last_weight_;
      return;
    }
    last_input_ = id, last_weight_ = w.id();
    add(x, stats_[w.id()]);
  }
  const InputStats* find(const Tensor& w) const {
    const auto same = same_input_.find(w.id());
    const auto it = stats_.find(same == same_input_.end() ? w.id() : same->second);
    return it == stats_.end() ? nullptr : &it->second;
  }

 private:
  void add(const Tensor& x, InputStats& stats) {
    const int64_t columns = x.dim(-1), rows = columns ? x.count() / columns : 0;
    stats.rows += rows;
    if (!stats.squares.defined()) stats.squares = Tensor::zeros({columns}, DType::kF64, device_.memory());
    device_.column_squares(
        {f32_on(device_, x), reinterpret_cast<double*>(address_on(device_, stats.squares)), rows, columns});
    if (!gram_) return;
    if (!stats.gram.defined()) stats.gram = Tensor::zeros({columns, columns}, DType::kF32, device_.memory());
    const kernels::Operand along_rows{f32_on(device_, x), DType::kF32, 1, columns};
    device_.gemm(
        {columns, columns, rows, along_rows, along_rows, {f32_on(device_, stats.gram), columns, true}});
  }

  Device& device_;
  bool gram_;
  std::set<uint64_t> only_;
  uint64_t last_input_ = 0, last_weight_ = 0;
  std::map<uint64_t, InputStats> stats_;
  std::map<uint64_t, uint64_t> same_input_;
};

// The mean over the inputs of all parameters of a tensor (experts, fused projections).
Mean mean_of(const NamedSlice& slice, const InputCollector& collector) {
  Mean out;
  std::set<const InputStats*> counted;
  for (const Parameter* p : slice.parameters) {
    const InputStats* stats = collector.find(p->value);
    if (!stats || !counted.insert(stats).second) continue;
    out.rows += stats->rows;
    const Tensor squares = stats->squares.host();
    out.squares.resize(static_cast<size_t>(squares.count()));
    for (size_t i = 0; i < out.squares.size(); ++i) out.squares[i] += squares.data<double>()[i];
    if (!stats->gram.defined()) continue;
    if (!out.gram.defined()) out.gram = Tensor::zeros(stats->gram.shape());
    const Tensor gram = stats->gram.host();
    for (int64_t i = 0; i < out.gram.count(); ++i) out.gram.f32()[i] += gram.f32()[i];
  }
  for (double& v : out.squares) v /= static_cast<double>(out.rows);
  if (out.gram.defined())
    for (float& v : out.gram.span()) v /= static_cast<float>(out.rows);
  return out;
}

void run_window(const Model& model, const std::vector<int64_t>& ids, Device& device,
                InputCollector& collector) {
  Context ctx{device};
  ctx.observer = &collector;
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source.add(ids);
  if (model.encoder() && model.decoder()) inputs.target.add(ids);
  const Tensor h = model.hidden(f, inputs);
  if (model.spec().head.kind == HeadKind::kCausalLm) model.lm_logits(ctx, h);
}

void run_text(const Model& model, const std::vector<int64_t>& ids, int64_t window, Device& device,
              InputCollector& collector) {
  if (model.spec().max_positions > 0) window = std::min(window, model.spec().max_positions);
  const auto size = static_cast<int64_t>(ids.size());
  for (int64_t at = 0; at < size; at += window)
    run_window(model, {ids.begin() + at, ids.begin() + std::min(at + window, size)}, device, collector);
}

}  // namespace

Result<Calibration> calibrate_parameters(const Model& model, const std::vector<int64_t>& ids, Device& device,
                                         const CalibrateOptions& options,
                                         const std::vector<Parameter*>& selected) {
  if (ids.empty()) return error_at("calibrate", "the sample text has no tokens");
  model.parameters().to(device.memory());
  std::set<uint64_t> only;
  for (const Parameter* p : selected) only.insert(p->value.id());
  InputCollector collector(device, options.gram, std::move(only));
  run_text(model, ids, options.window, device, collector);
  Calibration out;
  out.tokens = static_cast<int64_t>(ids.size());
  for (const auto& p : model.parameters().all()) {
    NamedSlice slice;
    slice.parameters = {p.get()};
    const Mean mean = mean_of(slice, collector);
    if (mean.rows == 0) continue;
    out.importance[p->name].assign(mean.squares.begin(), mean.squares.end());
    if (mean.gram.defined()) out.gram.emplace(p->name, mean.gram);
  }
  return out;
}

Result<Calibration> calibrate(const LoadedModel& loaded, const std::vector<int64_t>& ids, Device& device,
                              const CalibrateOptions& options) {
  const Model& model = *loaded.model;
  const GgufSection* section = loaded.family->gguf;
  if (!section)
    return error_of(Error::Kind::kUnsupported, "", "GGUF has no architecture for the family '{}'",
                    model.spec().family);
  loaded.model->parameters().to(device.memory());
  InputCollector collector(device, options.gram);
  run_text(model, ids, options.window, device, collector);
  Calibration out;
  out.tokens = static_cast<int64_t>(ids.size());
  for (const NamedSlice& slice : expand(section->names(model.spec()), model.parameters())) {
    Mean mean = mean_of(slice, collector);
    if (mean.rows == 0) continue;
    double mean_square = 0;
    for (const double s : mean.squares) mean_square += s / static_cast<double>(mean.squares.size());
    std::vector<float>& importance = out.importance[slice.tensor_name];
    // A column that the sample never used keeps a small importance.
    for (const double s : mean.squares)
      importance.push_back(static_cast<float>(s + 1e-3 * mean_square + 1e-12));
    if (mean.gram.defined()) out.gram.emplace(slice.tensor_name, mean.gram);
  }
  return out;
}

}  // namespace makar
