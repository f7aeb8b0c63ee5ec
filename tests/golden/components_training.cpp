// Golden recurrent cells with gradients, optimiser trajectories, schedules.
#include <algorithm>
#include <cmath>

#include "golden/fixture.h"
#include "nn/recurrent.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/shape.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace makar::golden {
namespace {

// The recurrent layers of the fixture: their number and directions come from the names of the weights, sizes
// from the shapes. The fixture's batch becomes a ragged batch of sequences of equal length.
class RecurrentStack {
 public:
  RecurrentStack(const Fixture& f, Device& device, const std::string& name, CellKind kind) {
    const bool bidirectional = f.has(name + ".weight_ih_l0_reverse");
    for (int64_t i = 0; f.has(name + ".weight_ih_l" + std::to_string(i)); ++i) {
      BlockSpec b;
      b.recurrent = RecurrentSpec{kind, f.get(name + ".weight_hh_l0").dim(1), bidirectional};
      const std::string end = "_l" + std::to_string(i);
      layers_.emplace_back(parameters, end, f.get(name + ".weight_ih" + end).dim(1), b);
    }
    for (const auto& p : parameters.all()) p->value = f.on(device, name + "." + theirs(*p));
  }
  // "_l0.backward.ih.weight" is "weight_ih_l0_reverse".
  static std::string theirs(const Parameter& p) {
    const size_t first = p.name.find('.'), last = p.name.rfind('.');
    const std::string middle = p.name.substr(first + 1, last - first - 1);
    const bool reverse = middle.starts_with("backward.");
    return p.name.substr(last + 1) + "_" + middle.substr(middle.find('.') + 1) + p.name.substr(0, first) +
           (reverse ? "_reverse" : "");
  }
  Tensor operator()(Context& ctx, const Tensor& x) const {  // [batch, time, width]
    AttentionInputs in;
    for (int64_t i = 0; i < x.dim(0); ++i)
      in.self.rows.push_back({i * x.dim(1), x.dim(1), i * x.dim(1), x.dim(1), 0, 0});
    ForwardContext f{ctx};
    Tensor h = ops::reshape(ctx, x, {x.dim(0) * x.dim(1), x.dim(2)});
    for (const RecurrentLayer& layer : layers_) h = layer(f, h, in, 0);
    return ops::reshape(ctx, h, {x.dim(0), x.dim(1), h.dim(1)});
  }
  ParameterSet parameters;

 private:
  std::vector<RecurrentLayer> layers_;
};

// Output and the norms of all gradients of `loss` = sum of the outputs' squares.
double recurrent_error(const Fixture& f, Device& device, const std::string& name, CellKind kind,
                       bool gradients) {
  const RecurrentStack stack(f, device, name, kind);
  Tape tape(device);
  Context ctx{device, &tape};
  stack.parameters.watch(tape);
  const Tensor out = stack(ctx, f.on(device, "x"));
  if (!gradients) return relative_error(out, f.get(name + ".out"));
  tape.backward(ops::sum(ctx, ops::activate(ctx, out, ops::Activation::kSquare)));
  stack.parameters.collect(tape);
  double worst = 0;
  const Json& expected = f.json().at(name + ".grads");
  for (const auto& p : stack.parameters.all()) {
    double norm = 0;
    const Tensor gradient = p->grad.host();
    for (const float g : gradient.span()) norm += static_cast<double>(g) * g;
    worst = std::max(worst,
                     relative_error(std::sqrt(norm), expected.at(RecurrentStack::theirs(*p)).get<double>()));
  }
  return worst;
}

// Steps on sum((A p - y)^2) from p0; row i of the fixture is p after step i + 1.
double trajectory_error(const Fixture& f, Device& device, const std::string& name,
                        const OptimizerOptions& options, double lr) {
  ParameterSet parameters;
  const Tensor a = f.on(device, "opt.A"), y = f.on(device, "opt.y"), expected = f.get("opt." + name);
  Parameter* p = parameters.add("p", f.get("opt.p0").shape());
  p->value = f.on(device, "opt.p0");
  Optimizer optimizer = Optimizer::make(parameters, options).value();
  Tensor got = Tensor::empty(expected.shape());
  for (int64_t i = 0; i < expected.dim(0); ++i) {
    Tape tape(device);
    Context ctx{device, &tape};
    parameters.watch(tape);
    const Tensor residual =
        ops::subtract(ctx, ops::linear(ctx, ops::reshape(ctx, p->value, {1, p->shape[0]}), a), y);
    tape.backward(ops::sum(ctx, ops::activate(ctx, residual, ops::Activation::kSquare)));
    parameters.collect(tape);
    optimizer.step(device, lr);
    parameters.clear_gradients();
    std::copy_n(p->value.host().f32(), p->shape[0], got.f32() + i * p->shape[0]);
  }
  return relative_error(got, expected);
}

}  // namespace

void add_recurrent(const Fixture& f, Device& device, std::vector<GoldenLine>& lines) {
  const std::pair<const char*, CellKind> cells[] = {
      {"rnn", CellKind::kRnn}, {"lstm", CellKind::kLstm}, {"gru", CellKind::kGru}};
  for (const auto& [cell, kind] : cells) {
    const std::string name = cell;
    lines.push_back(measure("components/" + name + ".out", kValueLimit,
                            [&, k = kind] { return recurrent_error(f, device, name, k, false); }));
    lines.push_back(measure("components/" + name + ".grads", kGradientNormLimit,
                            [&, k = kind] { return recurrent_error(f, device, name, k, true); }));
  }
}

void add_optimisers(const Fixture& f, Device& device, std::vector<GoldenLine>& lines) {
  struct Run {
    std::string prefix;  // of the fixture's name; a number may follow
    const char* optimiser;
    double lr;
  };
  // Learning rates were found from the first steps. Longer prefixes come before shorter ones.
  const Run runs[] = {{"sgd_momentum_", "momentum", 0.01},
                      {"sgd_nesterov_", "nesterov", 0.01},
                      {"sgd", "sgd", 0.01},
                      {"adagrad", "adagrad", 0.1},
                      {"rmsprop", "rmsprop", 0.01},
                      {"adamw_wd", "adamw", 0.05},
                      {"adamw", "adamw", 0.05},
                      {"adam", "adam", 0.05},
                      {"adafactor", "adafactor", 0.05}};
  for (const std::string& full_name : f.names()) {
    if (full_name.rfind("opt.", 0) != 0 || full_name == "opt.A" || full_name == "opt.y" ||
        full_name == "opt.p0")
      continue;
    const std::string name = full_name.substr(4);
    const auto run = std::find_if(std::begin(runs), std::end(runs),
                                  [&](const Run& r) { return name.rfind(r.prefix, 0) == 0; });
    if (run == std::end(runs)) {
      lines.push_back(skipped("components/" + full_name, "this optimiser is not implemented"));
      continue;
    }
    lines.push_back(measure("components/" + full_name, kValueLimit, [&] {
      OptimizerOptions options;
      options.name = run->optimiser;
      const std::string rest = name.substr(run->prefix.size());
      const double number = rest.empty() ? 0.0 : std::stod(rest);
      if (options.name == "momentum" || options.name == "nesterov") options.momentum = number;
      // The one parameter is a vector, which would not decay by default.
      options.groups = {{"*", {}, 1.0, options.name == "adamw" ? number : 0.0}};
      return trajectory_error(f, device, name, options, run->lr);
    }));
  }
}

void add_schedules(const Fixture& f, std::vector<GoldenLine>& lines) {
  if (!f.json().contains("schedules")) return;
  // The settings are given as text: "peak 1e-3, warmup 10, total 100; polynomial lr_end 1e-5 power 2".
  const std::string words = f.json().value("schedule_args", "");
  const auto setting = [&](const std::string& word, double fallback) {
    const size_t at = words.find(word + " ");
    return at == std::string::npos ? fallback : std::stod(words.substr(at + word.size() + 1));
  };
  for (const auto& [name, rates] : f.json().at("schedules").items())
    lines.push_back(measure("components/schedule." + name, 1e-12, [&, n = name, r = rates] {
      Schedule s;
      s.kind = schedule_kind(n).value();
      s.peak = setting("peak", 1e-3), s.power = setting("power", 2);
      s.warmup = static_cast<int64_t>(setting("warmup", 10)),
      s.total = static_cast<int64_t>(setting("total", 100));
      s.end = n == "polynomial" ? setting("lr_end", 1e-5) : 0.0;
      double worst = 0;
      for (size_t i = 0; i < r.size(); ++i)
        worst =
            std::max(worst, std::fabs(s.at(static_cast<int64_t>(i)) - r[i].template get<double>()) / s.peak);
      return worst;
    }));
}

}  // namespace makar::golden
