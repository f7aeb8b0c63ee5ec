// Golden fixtures of whole models: what transformers computed, through our loader, forward, tape and
// optimiser.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "golden/golden.h"
#include "infer/generate.h"
#include "models/adapter.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"
#include "train/objective.h"
#include "train/preference.h"

namespace makar::golden {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, Tensor>;

constexpr double kForward = 1e-5;
// Of run_models' precision.
DType activations = DType::kF32;
double limit_of(double f32, double bf16) { return activations == DType::kF32 ? f32 : bf16; }
double loss_limit() { return limit_of(1e-5, 1e-2); }
double training_limit() { return limit_of(1e-4, 5e-3); }
constexpr double kGradient = 1e-4, kBf16Gradient = 1e-1;

// A fixture's comparisons, folded into one line: the worst of each kind, as a share of its limit.
class Tally {
 public:
  void add(const std::string& kind, double error, double limit) {
    if (!(error >= 0)) error = INFINITY;
    auto& worst = worst_[kind];
    worst = std::max(worst, error);
    ratio_ = std::max(ratio_, error / limit);
    if (!(error <= limit)) failed_ = true;
  }
  void fail(const std::string& what) { failed_ = true, note_ += (note_.empty() ? "" : "; ") + what; }
  void note(const std::string& what) { note_ += (note_.empty() ? "" : "; ") + what; }
  GoldenLine line(const std::string& name) const {
    std::string text;
    for (const auto& [kind, error] : worst_)
      text += fmt::format("{}{} {:.1e}", text.empty() ? "" : "  ", kind, error);
    double top = 0;
    for (const auto& [kind, error] : worst_) top = std::max(top, error);
    if (!note_.empty()) text += (text.empty() ? "" : "  ") + ("(" + note_ + ")");
    return {name, top, top / std::max(ratio_, 1e-30), failed_ ? "fail" : "pass", text};
  }

 private:
  std::map<std::string, double> worst_;
  double ratio_ = 0;
  bool failed_ = false;
  std::string note_;
};

Result<Tensors> read_tensors(const std::string& path) {
  MAKAR_TRY(const auto file, Safetensors::open(path));
  Tensors out;
  for (const auto& name : file->names()) {
    MAKAR_TRY(out[name], file->tensor(name));
  }
  return out;
}

Tensors part(const Tensors& all, const std::string& prefix) {
  Tensors out;
  for (const auto& [name, t] : all)
    if (name.starts_with(prefix)) out[name.substr(prefix.size())] = t;
  return out;
}

// Relative error of norms over the rows that the mask does not hide.
double relative_error(const Tensor& computed, const Tensor& want, const Tensor* mask) {
  const Tensor got = computed.host();
  if (!(got.shape() == want.shape())) return INFINITY;
  const bool masked = mask && want.rank() >= 2 && want.dim(0) == mask->dim(0) && want.dim(1) == mask->dim(1);
  const int64_t row = masked ? want.count() / mask->count() : 1;
  double difference = 0, size = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    if (masked && mask->i64()[i / row] == 0) continue;
    const double d = static_cast<double>(got.f32()[i]) - want.f32()[i];
    difference += d * d, size += static_cast<double>(want.f32()[i]) * want.f32()[i];
  }
  return std::sqrt(difference / std::max(size, 1e-60));
}

// Some fixtures of sinusoidal models were made with position tables that are not in their files; what enters
// the first block gives those tables back: row t is the state less the scaled token.
void recover_positions(Model& model, const Tensors& in, const Tensors& out, Tally& tally) {
  const auto recover = [&](const Stack* stack, const std::string& ids_name, const std::string& state_name) {
    Parameter* table = model.parameters().find(stack->spec().name + ".embed.positions.weight");
    if (stack->spec().embedding.positions != PositionKind::kSinusoidal) return;
    if (!table || !table->optional || !in.contains(ids_name) || !out.contains(state_name)) return;
    const Tensor &ids = in.at(ids_name), &state = out.at(state_name), tokens = stack->tokens()->value;
    const int64_t width = tokens.dim(1);
    Tensor found = table->value.clone();
    double difference =
        0;  // from the sinusoids, by a formula of the test's own: a wrong table of ours is no excuse
    const auto sinusoid = [width](int64_t t, int64_t j) {
      const int64_t half = (width + 1) / 2, pair = j < half ? j : j - half;
      const double angle =
          static_cast<double>(t) *
          std::exp(-std::log(10000.0) * 2.0 * static_cast<double>(pair) / static_cast<double>(width));
      return j < half ? std::sin(angle) : std::cos(angle);
    };
    for (int64_t t = 0; t < ids.dim(1); ++t)
      for (int64_t j = 0; j < width; ++j) {
        const float v = state.f32()[t * width + j] -
                        stack->spec().embedding.scale * tokens.f32()[ids.i64()[t] * width + j];
        difference = std::max(difference, std::fabs(v - sinusoid(t, j)));
        found.f32()[t * width + j] = v;
      }
    if (difference < 1e-3) return;
    table->value = found;
    tally.note(fmt::format("{} positions are not sinusoidal and not in the file: taken from {}",
                           stack->spec().name, state_name));
  };
  if (model.encoder())
    recover(model.encoder(), "input_ids", model.decoder() ? "encoder_hidden_states.0" : "hidden_states.0");
  if (model.decoder())
    recover(model.decoder(), model.encoder() ? "decoder_input_ids" : "input_ids",
            model.encoder() ? "decoder_hidden_states.0" : "hidden_states.0");
}

void compare_forward(const Model& model, Device& device, const Tensors& in, const Tensors& want,
                     const std::string& place, Tally& tally) {
  const auto got = forward_tensors(model, in, {device}, place);
  if (!got.ok()) return tally.fail(got.error().text());
  const Tensor* mask = in.contains("attention_mask") ? &in.at("attention_mask") : nullptr;
  for (const auto& [name, value] : want) {
    if (!got->contains(name)) {
      tally.fail("no output '" + name + "'");
      continue;
    }
    tally.add("forward", relative_error(got->at(name), value, name.starts_with("decoder") ? nullptr : mask),
              kForward);
  }
}

void compare_gradients(const LoadedModel& loaded, const Json& want, Tally& tally) {
  Tensors got;
  for (const bool in_memory : {false, true})
    for (auto& named : named_tensors(*loaded.model, *loaded.family, in_memory, [](const Parameter& p) {
           return p.grad.defined() ? p.grad : Tensor::zeros(p.shape);
         }))
      got[named.name] = named.tensor;
  if (activations == DType::kBF16) {  // the whole gradient: small parts of it are bf16's rounding
    double squares = 0, squares_want = 0;
    for (const auto& [name, g] : want.items()) {
      squares_want += g["l2"].get<double>() * g["l2"].get<double>();
      if (!got.contains(name)) continue;
      const Tensor t = got[name].host();
      for (int64_t i = 0; i < t.count(); ++i) squares += static_cast<double>(t.f32()[i]) * t.f32()[i];
    }
    return tally.add("gradients", std::fabs(std::sqrt(squares / squares_want) - 1), kBf16Gradient);
  }
  // A gradient that is zero but for rounding (a key bias: softmax does not see it) is compared with the
  // others' size.
  double floor = 0;
  for (const auto& [name, g] : want.items()) floor = std::max(floor, 1e-3 * g["l2"].get<double>());
  for (const auto& [name, g] : want.items()) {
    if (!got.contains(name)) {
      tally.fail("no gradient '" + name + "'");
      continue;
    }
    const Tensor& t = got[name];
    double squares = 0, sum = 0, largest = 0;
    for (int64_t i = 0; i < t.count(); ++i) {
      const double v = t.f32()[i];
      squares += v * v, sum += v, largest = std::max(largest, std::fabs(v));
    }
    const double norm = std::sqrt(squares), norm_want = g["l2"], scale = std::max(norm_want, floor);
    tally.add("gradients", std::fabs(norm - norm_want) / scale, kGradient);
    tally.add("gradients",
              std::fabs(sum - g["sum"].get<double>()) / (scale * std::sqrt(static_cast<double>(t.count()))),
              kGradient);
    for (size_t i = 0; i < g["first"].size(); ++i)
      tally.add("gradients", std::fabs(t.f32()[i] - g["first"][i].get<double>()) / std::max(largest, floor),
                kGradient);
  }
}

// Gradients of a loss for all trainable parameters, in their grad.
template <class Loss>
Result<double> backward(const Model& model, Device& device, Loss&& loss) {
  Tape tape(device);
  model.parameters().clear_gradients();
  model.parameters().watch(tape);
  Context ctx{device, &tape};
  ctx.activations = activations;
  ForwardContext f{ctx};
  MAKAR_TRY(const Tensor value, loss(f));
  tape.backward(value);
  model.parameters().collect(tape);
  return static_cast<double>(value.host().f32()[0]);
}

struct TrainingTrace {
  std::vector<double> losses, norms;  // per step, norms before clipping
};

template <class Loss>
Result<TrainingTrace> train(const Model& model, Device& device, const OptimizerOptions& options, double lr,
                            double clip, size_t steps, Loss&& loss) {
  MAKAR_TRY(Optimizer optimizer, Optimizer::make(model.parameters(), options));
  TrainingTrace trace;
  for (size_t step = 0; step < steps; ++step) {
    MAKAR_TRY(const double value, backward(model, device, loss));
    const double norm = gradient_norm(device, model.parameters());
    trace.losses.push_back(value), trace.norms.push_back(norm);
    optimizer.step(device, lr, clip > 0 ? clip_factor(norm, clip) : 1.0);
  }
  return trace;
}

double relative(double got, double want, double floor) {
  return std::fabs(got - want) / std::max(floor, std::fabs(want));
}

// How far a trace moves if the value projections change by their last bit: up to the given step, the largest
// relative difference. A router turns such a difference into another choice of experts after a few steps.
template <class Loss>
Result<std::vector<double>> sensitivity(const Model& model, Device& device, const OptimizerOptions& options,
                                        double lr, double clip, size_t steps, Loss&& loss) {
  std::vector<Tensor> before;
  for (const auto& p : model.parameters().all())
    before.push_back(p->value.defined() ? p->value.clone() : Tensor());
  const auto restore = [&] {
    for (size_t i = 0; i < before.size(); ++i)
      model.parameters().all()[i]->value = before[i].defined() ? before[i].clone() : Tensor();
  };
  MAKAR_TRY(const TrainingTrace plain, train(model, device, options, lr, clip, steps, loss));
  restore();
  for (const auto& p : model.parameters().all()) {
    if (!p->name.ends_with(".attn.v.weight")) continue;
    Tensor moved = p->value.host().clone();
    for (int64_t i = 0; i < moved.count(); ++i)
      moved.f32()[i] = std::nextafter(moved.f32()[i], i % 2 ? INFINITY : -INFINITY);
    p->value = moved.to(device.memory());
  }
  MAKAR_TRY(const TrainingTrace other, train(model, device, options, lr, clip, steps, loss));
  restore();
  std::vector<double> out;
  double largest = 0;
  for (size_t i = 0; i < steps; ++i) {
    largest = std::max({largest, relative(other.losses[i], plain.losses[i], 1.0),
                        relative(other.norms[i], plain.norms[i], 0.0)});
    out.push_back(largest);
  }
  return out;
}

template <class Loss>
void compare_training(const Model& model, Device& device, const OptimizerOptions& options, double lr,
                      double clip, const Json& losses, const Json& norms, Loss&& loss, Tally& tally) {
  const size_t steps = losses.size();
  std::vector<double> moved(steps, 0.0);
  if (model.spec().main().routed()) {
    const auto measured = sensitivity(model, device, options, lr, clip, steps, loss);
    if (!measured.ok()) return tally.fail(measured.error().text());
    moved = *measured;
  }
  const auto trace = train(model, device, options, lr, clip, steps, loss);
  if (!trace.ok()) return tally.fail(trace.error().text());
  for (size_t i = 0; i < steps; ++i) {
    const double room = 10 * moved[i];
    tally.add("training", relative(trace->losses[i], losses[i].get<double>(), 1.0), training_limit() + room);
    if (norms.is_array())
      tally.add("training", relative(trace->norms[i], norms[i].get<double>(), 0.0),
                10 * training_limit() + room);
  }
}

OptimizerOptions adamw(double beta2, double decay) {
  OptimizerOptions o;
  o.name = "adamw";
  o.beta1 = 0.9, o.beta2 = beta2, o.eps = 1e-8;
  o.weight_decay = decay;
  // transformers has the biases of all experts in one matrix, and the recipe decays matrices.
  ParameterGroup biases;
  biases.predicate = [](const Parameter& p) {
    return p.name.find(".experts.") != std::string::npos && p.name.ends_with(".bias");
  };
  biases.weight_decay = decay;
  o.groups = {biases};
  return o;
}

// The loss of a language model's recorded logits for its labels, in double; NaN for other heads.
double own_loss(const ModelSpec& spec, const Tensors& in, const Tensors& out) {
  const bool lm = spec.head.kind == HeadKind::kCausalLm || spec.head.kind == HeadKind::kMaskedLm;
  if (!lm || !out.contains("logits") || !in.contains("labels") || spec.router_loss > 0) return NAN;
  const Tensor &logits = out.at("logits"), &labels = in.at("labels");
  const int64_t time = labels.dim(1), classes = logits.dim(2),
                shift = spec.head.kind == HeadKind::kCausalLm && !spec.encoder ? 1 : 0;
  double total = 0;
  int64_t counted = 0;
  for (int64_t r = 0; r < labels.dim(0); ++r)
    for (int64_t t = 0; t + shift < time; ++t) {
      const int64_t label = labels.i64()[r * time + t + shift];
      if (label < 0) continue;
      const float* row = logits.f32() + (r * time + t) * classes;
      double top = row[0], sum = 0;
      for (int64_t c = 0; c < classes; ++c) top = std::max<double>(top, row[c]);
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - top);
      total += top + std::log(sum) - row[label];
      ++counted;
    }
  return total / static_cast<double>(counted);
}

// "AdamW lr=1e-2 betas=..." names the rate; everything else of the recipe is the same in all fixtures.
double learning_rate(const Json& training) {
  const std::string recipe = training["recipe"];
  const size_t at = recipe.find("lr=");
  return at == std::string::npos ? 1e-2 : std::stod(recipe.substr(at + 3));
}

std::string describe(const Json& args) {
  std::string text;
  for (const auto& [key, value] : args.items())
    if (key != "do_sample" && key != "max_new_tokens" && key != "pad_token_id" && key != "eos_token_id")
      text += " " + key + "=" + value.dump();
  return text;
}

void compare_generation(const Model& model, Device& device, const std::string& name, const Json& runs,
                        bool recovered, Tally& tally, std::vector<GoldenLine>& lines) {
  // transformers forgets the text before the last token once it exceeds longrope's original context.
  const auto& rope = model.spec().main().first().attention.rope;
  const bool longrope = rope && rope->scaling == ops::RopeScaling::kLongRope;
  for (const Json& run : runs) {
    const Json& args = run["args"];
    if (longrope && args.value("num_beams", 1) > 1) {
      tally.note("beams are not compared: they end beyond the original context");
      continue;
    }
    GenerateOptions o;
    o.max_new_tokens = args["max_new_tokens"].get<int64_t>();
    o.stop = {args["eos_token_id"].get<int64_t>()};
    o.sampler.repetition_penalty = args.value("repetition_penalty", 1.0);
    o.sampler.no_repeat_ngram_size = args.value("no_repeat_ngram_size", 0);
    o.beams = args.value("num_beams", 1), o.answers = args.value("num_return_sequences", 1);
    o.length_penalty = args.value("length_penalty", 1.0);
    o.early = args.value("early_stopping", false) ? EarlyStop::kYes : EarlyStop::kNo;
    const std::string what = o.beams > 1 ? "beams" : "greedy";
    for (size_t i = 0; i < run["input_ids"].size(); ++i) {
      const auto got = generate_all(model, device, run["input_ids"][i].get<std::vector<int64_t>>(), o);
      if (!got.ok()) return tally.fail(got.error().text());
      for (size_t r = 0; r < got->size(); ++r) {
        auto want = run["sequences"][i * static_cast<size_t>(o.answers) + r].get<std::vector<int64_t>>();
        auto mine = (*got)[r];
        // What follows the end is filling: the pad id, or the ending id where transformers takes a pad of 0
        // for none.
        while (want.size() > mine.size() && (want.back() == args["pad_token_id"] || want.back() == o.stop[0]))
          want.pop_back();
        const auto compare_only = [&](size_t most) {
          const size_t known = std::min({want.size(), mine.size(), most});
          want.resize(known), mine.resize(known);
        };
        if (recovered) compare_only(11);  // the rows of the position table that the fixture shows
        if (longrope) compare_only(static_cast<size_t>(rope->original_positions) + 1);
        if (mine != want)
          tally.fail(fmt::format("{}{} wrote {} instead of {}", what, describe(args), fmt::join(mine, ","),
                                 fmt::join(want, ",")));
      }
    }
    tally.add(what, 0, 1);
  }
}

}  // namespace

std::vector<GoldenLine> run_model(const std::string& folder, Device& device) {
  std::vector<GoldenLine> lines;
  const std::string name = "models/" + fs::path(folder).filename().string();
  Tally tally;
  const auto finish = [&] {
    lines.insert(lines.begin(), tally.line(name));
    return lines;
  };
  auto loaded = load_model(folder, {true});
  if (!loaded.ok()) return tally.fail(loaded.error().text()), finish();
  Model& model = *loaded->model;
  const std::string tensors_path = folder + "/golden.safetensors", json_path = folder + "/golden.json";
  auto tensors = read_tensors(tensors_path);
  if (!tensors.ok()) return tally.fail(tensors.error().text()), finish();
  Json golden = Json::object();
  if (fs::exists(json_path)) {
    auto json = read_json(json_path);
    if (!json.ok()) return tally.fail(json.error().text()), finish();
    golden = *json;
  }
  const Tensors in = part(*tensors, "in."), out = part(*tensors, "out.");

  if (in.contains("chosen")) {  // a reward model on pairs
    model.parameters().to(device.memory());
    const auto inputs = [&](const char* which) {
      return make_inputs(model.spec(), {{"input_ids", in.at(which)}}, tensors_path);
    };
    auto chosen = inputs("chosen"), rejected = inputs("rejected");
    if (!chosen.ok() || !rejected.ok()) return tally.fail("bad inputs"), finish();
    const auto reward = [&](ForwardContext& f, const Inputs& i) {
      return model.outputs(f.ops, model.hidden(f, i), i.source).at("logits");
    };
    Context ctx{device};
    ForwardContext f{ctx};
    const auto flat = [](const Tensor& t) { return t.reshape({t.count()}); };
    tally.add("forward", relative_error(flat(reward(f, *chosen)), out.at("reward_chosen"), nullptr),
              kForward);
    tally.add("forward", relative_error(flat(reward(f, *rejected)), out.at("reward_rejected"), nullptr),
              kForward);
    const auto loss = backward(model, device, [&](ForwardContext& g) -> Result<Tensor> {
      return pairwise_loss(g.ops, reward(g, *chosen), reward(g, *rejected));
    });
    tally.add("loss", std::fabs(*loss - golden["loss"].get<double>()), loss_limit());
    compare_gradients(*loaded, golden["grads"], tally);
    return finish();
  }

  Tally before = tally;
  recover_positions(model, in, out, tally);
  const bool recovered = tally.line("").note != before.line("").note;
  model.parameters().to(device.memory());
  compare_forward(model, device, in, out, tensors_path, tally);
  const auto inputs = make_inputs(model.spec(), in, tensors_path);
  if (!inputs.ok()) return tally.fail(inputs.error().text()), finish();
  const auto loss = [&](ForwardContext& f) { return head_loss(f, model, *inputs, in); };
  // A fixture whose own logits do not give its own loss was recorded with dropout on: nothing can repeat
  // that.
  const double own = golden.contains("loss") ? own_loss(model.spec(), in, out) : NAN;
  if (std::isfinite(own) && std::fabs(own - golden["loss"].get<double>()) > 1e-4 * std::max(1.0, own)) {
    const std::string why =
        fmt::format("recorded with dropout on: its logits give a loss of {:.5f}, golden.json says {:.5f}",
                    own, golden["loss"].get<double>());
    for (const char* what : {"gradients", "training"})
      if (golden.contains(what == std::string("gradients") ? "grads" : what))
        lines.push_back(skipped(name + " " + what, why));
    golden["loss"] = own;
    golden.erase("grads");
    golden.erase("training");
  }
  if (golden.contains("generate") && activations == DType::kF32)
    compare_generation(model, device, name, golden["generate"], recovered, tally, lines);
  if (golden.contains("loss")) {
    const auto value = backward(model, device, loss);
    if (!value.ok()) return tally.fail(value.error().text()), finish();
    const double want = golden["loss"];
    tally.add("loss", std::fabs(*value - want) / std::max(1.0, std::fabs(want)), loss_limit());
    // In bf16 a router may choose other experts.
    if (golden.contains("grads") && (activations == DType::kF32 || !model.spec().main().routed()))
      compare_gradients(*loaded, golden["grads"], tally);
  }
  if (golden.contains("training") && activations == DType::kF32)
    compare_training(model, device, adamw(0.95, 0.1), learning_rate(golden["training"]), 1.0,
                     golden["training"]["loss"], golden["training"]["grad_norm_before_clip"], loss, tally);
  return finish();
}

// A copy of a model folder whose config says another rms_norm_eps.
std::string with_eps(const std::string& base, double eps) {
  const fs::path copy = fs::temp_directory_path() / fmt::format("makar-golden-{}", ::getpid());
  fs::remove_all(copy);
  fs::copy(base, copy);
  auto config = read_json(base + "/config.json");
  (*config)["rms_norm_eps"] = eps;
  fs::permissions(copy / "config.json", fs::perms::owner_all);
  check(write_file(copy.string() + "/config.json", config->dump()).ok(),
        "cannot write the copy's config.json");
  return copy.string();
}

// An adapter on a base: logits with it, and losses when only it trains.
GoldenLine run_adapter(const std::string& name, const std::string& base, const std::string& folder, double lr,
                       Device& device, const std::string& note = "") {
  Tally tally;
  if (!note.empty()) tally.note(note);
  auto loaded = load_model(base, {true});
  if (!loaded.ok()) return tally.fail(loaded.error().text()), tally.line(name);
  const auto adapter = load_adapter(*loaded, folder, device);
  if (!adapter.ok()) return tally.fail(adapter.error().text()), tally.line(name);
  loaded->model->parameters().to(device.memory());
  const auto tensors = read_tensors(folder + "/golden.safetensors");
  auto golden = read_json(folder + "/golden.json");
  if (!tensors.ok() || !golden.ok()) return tally.fail("the fixture does not read"), tally.line(name);
  const Tensors in = part(*tensors, "in.");
  compare_forward(*loaded->model, device, in, part(*tensors, "out."), folder, tally);
  if (name == "lora" && note.empty() && tally.line(name).status == "fail") {
    // lora/ was recorded with another eps than its base's config.json says; the recorded one makes it exact.
    const std::string copy = with_eps(base, 1e-6);
    GoldenLine again =
        run_adapter(name, copy, folder, lr, device, "recorded with rms_norm_eps 1e-6, not the base config's");
    fs::remove_all(copy);
    return again;
  }
  const auto inputs = make_inputs(loaded->model->spec(), in, folder);
  const auto loss = [&](ForwardContext& f) {
    return head_loss(f, *loaded->model, *inputs, {{"labels", in.at("input_ids")}});
  };
  compare_training(*loaded->model, device, adamw(0.999, 0.0), lr, 0, (*golden)["training_loss"], Json(), loss,
                   tally);
  return tally.line(name);
}

GoldenLine run_dpo(const std::string& root, Device& device) {
  Tally tally;
  const std::string name = "preference/dpo";
  auto policy = load_model(root + "/models/dpo-policy", {true}),
       reference = load_model(root + "/models/dpo-reference");
  if (!policy.ok() || !reference.ok())
    return tally.fail("models/dpo-policy or dpo-reference does not load"), tally.line(name);
  for (const auto* loaded : {&policy, &reference}) (*loaded)->model->parameters().to(device.memory());
  const auto tensors = read_tensors(root + "/preference/dpo.safetensors");
  const auto golden = read_json(root + "/preference/dpo.json");
  if (!tensors.ok() || !golden.ok()) return tally.fail("the fixture does not read"), tally.line(name);
  const auto inputs = [&](const char* which) {
    return make_inputs(policy->model->spec(), {{"input_ids", tensors->at(which)}}, root);
  };
  const auto chosen = inputs("chosen"), rejected = inputs("rejected");
  const Tensor& m = tensors->at("mask");
  const std::vector<float> mask(m.f32(), m.f32() + m.count());
  const auto compare = [&](const Tensor& computed, const char* key) {
    const Tensor got = computed.host();
    for (int64_t i = 0; i < got.count(); ++i) {
      const double want = (*golden)[key][static_cast<size_t>(i)];
      tally.add("forward", std::fabs(got.f32()[i] - want) / std::max(1.0, std::fabs(want)), kForward);
    }
  };
  Context plain{device};
  ForwardContext fixed{plain};
  PreferencePairs pairs;
  pairs.reference_chosen = sequence_log_probabilities(fixed, *reference->model, chosen->source, mask);
  pairs.reference_rejected = sequence_log_probabilities(fixed, *reference->model, rejected->source, mask);
  compare(pairs.reference_chosen, "ref_chosen_logps");
  compare(pairs.reference_rejected, "ref_rejected_logps");
  const float beta = (*golden)["beta"].get<float>();
  const auto score = [&](ForwardContext& f) {
    pairs.policy_chosen = sequence_log_probabilities(f, *policy->model, chosen->source, mask);
    pairs.policy_rejected = sequence_log_probabilities(f, *policy->model, rejected->source, mask);
  };
  score(fixed);
  compare(pairs.policy_chosen, "policy_chosen_logps");
  compare(pairs.policy_rejected, "policy_rejected_logps");
  const auto check_loss = [&](const Tensor& got, const char* key) {
    const double want = (*golden)[key];
    tally.add("loss", std::fabs(got.host().f32()[0] - want) / std::max(1.0, std::fabs(want)), loss_limit());
  };
  check_loss(dpo_loss(plain, pairs, beta, 0.1f), "label_smoothing_0.1_loss");
  check_loss(ipo_loss(plain, pairs, beta), "ipo_loss");
  const auto loss = backward(*policy->model, device, [&](ForwardContext& f) -> Result<Tensor> {
    score(f);
    return dpo_loss(f.ops, pairs, beta);
  });
  tally.add("loss", std::fabs(*loss - (*golden)["loss"].get<double>()), loss_limit());
  compare_gradients(*policy, (*golden)["grads"], tally);
  return tally.line(name);
}

std::vector<GoldenLine> run_models(const std::string& root, Device& device, DType type) {
  activations = type;
  std::vector<GoldenLine> lines;
  const auto folders = [](const std::string& at) {
    std::vector<std::string> out;
    if (fs::is_directory(at))
      for (const auto& entry : fs::directory_iterator(at))
        if (entry.is_directory()) out.push_back(entry.path().string());
    std::sort(out.begin(), out.end());
    return out;
  };
  for (const auto& folder : folders(root + "/models")) {
    if (!fs::exists(folder + "/golden.safetensors")) continue;
    const auto made = run_model(folder, device);
    lines.insert(lines.end(), made.begin(), made.end());
  }
  if (fs::exists(root + "/lora/adapter_config.json"))
    lines.push_back(run_adapter("lora", root + "/models/llama", root + "/lora", 1e-2, device));
  for (const auto& folder : folders(root + "/peft"))
    if (fs::exists(folder + "/adapter_config.json"))
      lines.push_back(run_adapter("peft/" + fs::path(folder).filename().string(), root + "/peft/base", folder,
                                  5e-3, device));
  if (fs::exists(root + "/preference/dpo.json")) lines.push_back(run_dpo(root, device));
  return lines;
}

}  // namespace makar::golden
