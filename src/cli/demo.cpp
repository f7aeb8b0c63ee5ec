// makar demo: builds a tiny model, shows its structure, trains it for half a minute, and generates text
// before and after.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "base/progress.h"
#include "base/rng.h"
#include "cli/demo_text.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "infer/generate.h"
#include "kernels/cpu_device.h"
#include "models/load.h"
#include "train/step.h"

namespace makar {
namespace {

constexpr int64_t kContext = 96, kSequences = 8;

// A character-level tokenizer, enough for a page of verse.
struct Characters {
  std::string all;
  explicit Characters(const std::string& text) {
    const std::set<char> seen(text.begin(), text.end());
    all.assign(seen.begin(), seen.end());
  }
  std::vector<int64_t> encode(const std::string& text) const {
    std::vector<int64_t> ids;
    for (const char c : text)
      if (const auto at = all.find(c); at != std::string::npos) ids.push_back(static_cast<int64_t>(at));
    return ids;
  }
  std::string decode(const std::vector<int64_t>& ids) const {
    std::string text;
    for (const int64_t id : ids) text += all.at(static_cast<size_t>(id));
    return text;
  }
};

std::string config_text(int64_t vocab) {
  return fmt::format(
      R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": {}, "hidden_size": 128,
    "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true}})",
      vocab);
}

// Random windows of the text, drawn as a function of the step.
void fill_batch(const std::vector<int64_t>& ids, int64_t step, Batch& batch, std::vector<int64_t>& targets) {
  const Rng rng(7, Purpose::kShuffle, static_cast<uint64_t>(step));
  const auto places = static_cast<double>(static_cast<int64_t>(ids.size()) - kContext);
  for (int64_t s = 0; s < kSequences; ++s) {
    const auto at = static_cast<int64_t>(rng.uniform_double(static_cast<uint64_t>(s)) * places);
    batch.add({ids.begin() + at, ids.begin() + at + kContext});
    targets.insert(targets.end(), ids.begin() + at + 1, ids.begin() + at + kContext + 1);
  }
}

void print_structure(const Model& model) {
  const StackSpec& s = *model.spec().decoder;
  fmt::print(
      "A {} of {} parameters: {} layers, width {}, {} heads ({} for keys and values), feed-forward {}, {} "
      "characters.\n\n",
      model.spec().architecture, model.parameters().count(), s.layers(), s.width, s.first().attention.heads,
      s.first().attention.kv_heads, s.first().feed_forward.width, model.spec().vocab);
  for (const auto& p : model.parameters().all())
    if (p->name.find("layers.") == std::string::npos || p->name.find("layers.0.") != std::string::npos)
      fmt::print("  {:<36} {}\n", p->name, p->shape.text());
  fmt::print("  (layers 1 to {} are alike)\n\n", s.layers() - 1);
}

int show(const Model& model, Device& device, const Characters& characters, const char* title) {
  GenerateOptions o;
  o.max_new_tokens = 160;
  o.sampler = {0.5f, 0, 1.0f, 3};
  o.stop = {-1};  // no stop token: every id is a character
  const auto out = generate(model, device, characters.encode("The maker "), o);
  if (!out.ok()) return report(out.error());
  fmt::print("{}\n\n{}\n\n", title, characters.decode(*out));
  return 0;
}

}  // namespace

int run_demo(const std::vector<std::string>& arguments) {
  int64_t steps = 300, threads = 0;
  std::string save;
  Options options("demo", "Train a tiny model on a page of verse and sample from it before and after.",
                  "makar demo --steps 300");
  options.add("--steps", &steps, "number of training steps", "N");
  options.add("--save", &save, "write the trained model as a Hugging Face folder", "DIR");
  declare_threads(options, threads);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (steps < 1 || steps > 1000000) {
    fmt::print(stderr, "makar: --steps must be between 1 and 1000000\n");
    return 2;
  }
  const std::string text = kDemoText;
  const Characters characters(text);
  const std::vector<int64_t> ids = characters.encode(text);
  const auto config = Config::parse(config_text(static_cast<int64_t>(characters.all.size())), "demo");
  if (!config.ok()) return report(config.error());
  auto made = make_model(*config);
  if (!made.ok()) return report(made.error());
  Model& model = *made->model;
  initialize(model, 1);
  CpuDevice device(static_cast<int>(threads));
  print_structure(model);
  if (const int code = show(model, device, characters, "Before training it writes:")) return code;

  OptimizerOptions adamw;
  adamw.weight_decay = 0.1;
  adamw.beta2 = 0.95;
  auto optimizer = Optimizer::make(model.parameters(), adamw);
  if (!optimizer.ok()) return report(optimizer.error());
  const auto start = std::chrono::steady_clock::now();
  double first = 0, last = 0;
  {
    Progress progress;
    for (int64_t step = 0; step < steps; ++step) {
      Batch batch;
      std::vector<int64_t> targets;
      fill_batch(ids, step, batch, targets);
      StepOptions o;
      const double warm = std::min(1.0, static_cast<double>(step + 1) / 20.0);
      o.lr = 3e-3 * warm * 0.5 *
             (1.0 + std::cos(3.14159265358979 * static_cast<double>(step) / static_cast<double>(steps)));
      o.step = static_cast<uint64_t>(step);
      const StepResult r = train_step(model, *optimizer, device, batch, targets, o);
      if (step == 0) first = r.loss;
      last = r.loss;
      const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      progress.show("training", static_cast<uint64_t>(step + 1), static_cast<uint64_t>(steps),
                    fmt::format("loss {:.3f} | norm {:.2f} | lr {:.1e} | {:.1f}k tok/s", r.loss, r.norm, o.lr,
                                static_cast<double>((step + 1) * kSequences * kContext) / spent / 1000));
    }
  }
  fmt::print("Loss fell from {:.3f} to {:.3f} in {} steps.\n\n", first, last, steps);
  if (const int code = show(model, device, characters, "After training it writes:")) return code;
  if (!save.empty()) {
    const Status saved = save_model(save, model, *made->family);
    if (!saved.ok()) return report(saved.error());
    fmt::print("Saved to {}.\n", save);
  }
  return 0;
}

}  // namespace makar
