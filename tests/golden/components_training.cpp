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

// The layer that the fixture's weights describe: layers and directions are read off their names, sizes off shapes.
RecurrentOptions recurrent_options(const Fixture& f, const std::string& name, CellKind kind) {
  RecurrentOptions o;
  o.kind = kind, o.layers = 0;
  const Tensor w = f.get(name + ".weight_ih_l0");
  o.input = w.dim(1), o.hidden = f.get(name + ".weight_hh_l0").dim(1);
  while (f.has(name + ".weight_ih_l" + std::to_string(o.layers))) ++o.layers;
  o.bidirectional = f.has(name + ".weight_ih_l0_reverse");
  return o;
}

// Output and the norms of all gradients of `loss` = sum of the outputs' squares.
double recurrent_error(const Fixture& f, const std::string& name, CellKind kind, bool gradients) {
  ThreadPool pool(1);
  ParameterSet parameters;
  const Recurrent layer(parameters, "", recurrent_options(f, name, kind));
  for (const auto& p : parameters.all()) p->value = f.get(name + "." + p->name);
  Tape tape;
  Context ctx{pool, &tape};
  parameters.watch(tape);
  const Tensor out = layer.forward(ctx, f.get("x")).sequence;
  if (!gradients) return relative_error(out, f.get(name + ".out"));
  tape.backward(ops::sum(ctx, ops::activate(ctx, out, ops::Activation::kSquare)));
  parameters.collect(tape);
  double worst = 0;
  const Json& want = f.json().at(name + ".grads");
  for (const auto& p : parameters.all()) {
    double norm = 0;
    for (const float g : p->grad.span()) norm += static_cast<double>(g) * g;
    worst = std::max(worst, relative_error(std::sqrt(norm), want.at(p->name).get<double>()));
  }
  return worst;
}

// Steps on sum((A p - y)^2) from p0; row i of the fixture is p after step i + 1.
double trajectory_error(const Fixture& f, const std::string& name, const OptimizerOptions& options, double lr) {
  ThreadPool pool(1);
  ParameterSet parameters;
  const Tensor a = f.get("opt.A"), y = f.get("opt.y"), want = f.get("opt." + name);
  Parameter* p = parameters.add("p", f.get("opt.p0").shape());
  p->value = f.get("opt.p0");
  Optimizer optimizer = Optimizer::make(parameters, options).value();
  Tensor got = Tensor::empty(want.shape());
  for (int64_t i = 0; i < want.dim(0); ++i) {
    Tape tape;
    Context ctx{pool, &tape};
    parameters.watch(tape);
    const Tensor residual = ops::subtract(ctx, ops::linear(ctx, ops::reshape(ctx, p->value, {1, p->shape[0]}), a), y);
    tape.backward(ops::sum(ctx, ops::activate(ctx, residual, ops::Activation::kSquare)));
    parameters.collect(tape);
    optimizer.step(pool, lr);
    parameters.clear_gradients();
    std::copy_n(p->value.f32(), p->shape[0], got.f32() + i * p->shape[0]);
  }
  return relative_error(got, want);
}

}  // namespace

void add_recurrent(const Fixture& f, std::vector<GoldenLine>& lines) {
  const std::pair<const char*, CellKind> cells[] = {{"rnn", CellKind::kRnn}, {"lstm", CellKind::kLstm}, {"gru", CellKind::kGru}};
  for (const auto& [cell, kind] : cells) {
    const std::string name = cell;
    lines.push_back(measure("components/" + name + ".out", kValues, [&, k = kind] { return recurrent_error(f, name, k, false); }));
    lines.push_back(measure("components/" + name + ".grads", kGradients, [&, k = kind] { return recurrent_error(f, name, k, true); }));
  }
}

void add_optimisers(const Fixture& f, std::vector<GoldenLine>& lines) {
  struct Run {
    const char *fixture, *optimiser;
    double lr, decay;
  };
  // Learning rates were found from the first steps: 0.01 for SGD and RMSProp, 0.1 for AdaGrad, 0.05 for the others.
  const Run runs[] = {{"sgd", "sgd", 0.01, 0},         {"sgd_momentum_0.9", "momentum", 0.01, 0}, {"sgd_nesterov_0.9", "nesterov", 0.01, 0},
                      {"adagrad", "adagrad", 0.1, 0},  {"rmsprop", "rmsprop", 0.01, 0},           {"adam", "adam", 0.05, 0},
                      {"adamw_wd0.1", "adamw", 0.05, 0.1}, {"adafactor", "adafactor", 0.05, 0}};
  for (const Run& r : runs) {
    OptimizerOptions options;
    options.name = r.optimiser;
    options.groups = {{"*", {}, 1.0, r.decay}};  // the one parameter is a vector, which would not decay by default
    lines.push_back(measure(std::string("components/opt.") + r.fixture, kValues, [&] { return trajectory_error(f, r.fixture, options, r.lr); }));
  }
}

void add_schedules(const Fixture& f, std::vector<GoldenLine>& lines) {
  if (!f.json().contains("schedules")) return;
  for (const auto& [name, rates] : f.json().at("schedules").items())
    lines.push_back(measure("components/schedule." + name, 1e-12, [&, n = name, r = rates] {
      Schedule s;  // the settings the fixture gives in words as schedule_args
      s.kind = schedule_kind(n).value();
      s.peak = 1e-3, s.warmup = 10, s.total = 100, s.power = 2, s.end = n == "polynomial" ? 1e-5 : 0.0;
      double worst = 0;
      for (size_t i = 0; i < r.size(); ++i) worst = std::max(worst, std::fabs(s.at(static_cast<int64_t>(i)) - r[i].template get<double>()) / s.peak);
      return worst;
    }));
}

}  // namespace makar::golden
