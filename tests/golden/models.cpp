// Golden fixtures of whole models: loads each, and compares forward pass, gradients, training and generation
// with what transformers recorded.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "golden/compare.h"
#include "train/preference.h"

namespace makar::golden {
namespace {

namespace fs = std::filesystem;

// Some fixtures of sinusoidal models were recorded with position tables that are not in their files. The
// input of the first block gives those tables: row t is the state minus the scaled token embedding.
void recover_positions(Model& model, const Tensors& in, const Tensors& out, Tally& tally) {
  const auto recover = [&](const Stack* stack, const std::string& ids_name, const std::string& state_name) {
    Parameter* table = model.parameters().find(stack->spec().name + ".embed.positions.weight");
    if (stack->spec().embedding.positions != PositionKind::kSinusoidal) return;
    if (!table || !table->optional || !in.contains(ids_name) || !out.contains(state_name)) return;
    const Tensor &ids = in.at(ids_name), &state = out.at(state_name), tokens = stack->tokens()->value;
    const int64_t width = tokens.dim(1);
    Tensor recovered = table->value.clone();
    double difference = 0;  // from sinusoids that are computed here, independently of makar's table
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
        recovered.f32()[t * width + j] = v;
      }
    if (difference < 1e-3) return;
    table->value = recovered;
    tally.note(fmt::format("{} positions are not sinusoidal and not in the file: taken from {}",
                           stack->spec().name, state_name));
  };
  if (model.encoder())
    recover(model.encoder(), "input_ids", model.decoder() ? "encoder_hidden_states.0" : "hidden_states.0");
  if (model.decoder())
    recover(model.decoder(), model.encoder() ? "decoder_input_ids" : "input_ids",
            model.encoder() ? "decoder_hidden_states.0" : "hidden_states.0");
}

// The loss of the recorded logits of a language model, in double; NaN for other heads.
double loss_of_recorded_logits(const ModelSpec& spec, const Tensors& in, const Tensors& out) {
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

// A reward model on pairs of answers.
void compare_reward(const LoadedModel& loaded, Device& device, const Tensors& in, const Tensors& out,
                    const Json& golden, const std::string& place, Tally& tally) {
  Model& model = *loaded.model;
  model.parameters().to(device.memory());
  const auto inputs = [&](const char* which) {
    return make_inputs(model.spec(), {{"input_ids", in.at(which)}}, place);
  };
  auto chosen = inputs("chosen"), rejected = inputs("rejected");
  if (!chosen.ok() || !rejected.ok()) return tally.fail("bad inputs");
  const auto reward = [&](ForwardContext& f, const Inputs& i) {
    return model.outputs(f.ops, model.hidden(f, i), i.source).at("logits");
  };
  Context ctx{device};
  ForwardContext f{ctx};
  const auto flat = [](const Tensor& t) { return t.reshape({t.count()}); };
  tally.add("forward", relative_error(flat(reward(f, *chosen)), out.at("reward_chosen"), nullptr),
            kForwardLimit);
  tally.add("forward", relative_error(flat(reward(f, *rejected)), out.at("reward_rejected"), nullptr),
            kForwardLimit);
  const auto loss = backward(model, device, [&](ForwardContext& g) -> Result<Tensor> {
    return pairwise_loss(g.ops, reward(g, *chosen), reward(g, *rejected));
  });
  tally.add("loss", std::fabs(*loss - golden["loss"].get<double>()), loss_limit());
  compare_gradients(loaded, golden["grads"], tally);
}

std::vector<GoldenLine> run_model(const std::string& folder, Device& device) {
  std::vector<GoldenLine> lines;
  const std::string name = "models/" + fs::path(folder).filename().string();
  Tally tally;
  const auto finish = [&] {
    lines.insert(lines.begin(), tally.line(name));
    return lines;
  };
  auto loaded = load_model(folder, {.trainable = true});
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

  if (in.contains("chosen"))
    return compare_reward(*loaded, device, in, out, golden, tensors_path, tally), finish();

  Tally before = tally;
  recover_positions(model, in, out, tally);
  const bool recovered = tally.line("").note != before.line("").note;
  model.parameters().to(device.memory());
  compare_forward(model, device, in, out, tensors_path, tally);
  const auto inputs = make_inputs(model.spec(), in, tensors_path);
  if (!inputs.ok()) return tally.fail(inputs.error().text()), finish();
  const auto loss = [&](ForwardContext& f) { return head_loss(f, model, *inputs, in); };
  // If the recorded logits do not give the recorded loss, the fixture was recorded with dropout, which cannot
  // be reproduced.
  const double logits_loss = golden.contains("loss") ? loss_of_recorded_logits(model.spec(), in, out) : NAN;
  if (std::isfinite(logits_loss) &&
      std::fabs(logits_loss - golden["loss"].get<double>()) > 1e-4 * std::max(1.0, logits_loss)) {
    const std::string reason =
        fmt::format("recorded with dropout on: its logits give a loss of {:.5f}, golden.json says {:.5f}",
                    logits_loss, golden["loss"].get<double>());
    for (const char* what : {"gradients", "training"})
      if (golden.contains(what == std::string("gradients") ? "grads" : what))
        lines.push_back(skipped(name + " " + what, reason));
    golden["loss"] = logits_loss;
    golden.erase("grads");
    golden.erase("training");
  }
  if (golden.contains("generate") && activations() == DType::kF32)
    compare_generation(model, device, golden["generate"], recovered, tally);
  if (golden.contains("loss")) {
    const auto value = backward(model, device, loss);
    if (!value.ok()) return tally.fail(value.error().text()), finish();
    const double expected = golden["loss"];
    tally.add("loss", std::fabs(*value - expected) / std::max(1.0, std::fabs(expected)), loss_limit());
    // In bf16 a router may choose other experts.
    if (golden.contains("grads") && (activations() == DType::kF32 || !model.spec().main().routed()))
      compare_gradients(*loaded, golden["grads"], tally);
  }
  if (golden.contains("training") && activations() == DType::kF32)
    compare_training(model, device, adamw(0.95, 0.1), learning_rate(golden["training"]), 1.0,
                     golden["training"]["loss"], golden["training"]["grad_norm_before_clip"], loss, tally);
  return finish();
}

}  // namespace

std::vector<GoldenLine> run_models(const std::string& root, Device& device, DType type) {
  set_activations(type);
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
    const auto model_lines = run_model(folder, device);
    lines.insert(lines.end(), model_lines.begin(), model_lines.end());
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
