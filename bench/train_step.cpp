// Training steps of one model with makar: forward, backward, clipping, AdamW. bench/train.py runs it
// against PyTorch. Prints one JSON object: seconds of each step after warm-up, losses, peak memory.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

#include "base/rng.h"
#include "bench/timing.h"
#include "kernels/device.h"
#include "models/load.h"
#include "train/step.h"

using namespace makar;

namespace {

struct Case {
  const char* name;
  int64_t layers, width, heads, context, sequences, vocab;
};
constexpr Case kCases[] = {{"char-gpt", 6, 384, 6, 256, 12, 65},
                           {"gpt2-124m", 12, 768, 12, 64, 4, 50257},
                           {"gpt2-124m-32x1024", 12, 768, 12, 1024, 32, 50257},
                           {"gpt2-350m-16x1024", 24, 1024, 16, 1024, 16, 50257}};

Result<Config> config_of(const Case& c) {
  return Config::parse(
      fmt::format(
          R"({{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": {}, "n_embd": {}, "n_head": {},
          "n_positions": {}, "vocab_size": {}, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}})",
          c.layers, c.width, c.heads, std::max<int64_t>(c.context, 256), c.vocab),
      "bench");
}

// Random tokens, and the next token of each as its target.
std::pair<Batch, std::vector<int64_t>> synthetic_batch(const Case& c) {
  Batch batch;
  std::vector<int64_t> targets;
  const Rng rng(1, Purpose::kSynthetic);
  for (int64_t s = 0; s < c.sequences; ++s) {
    std::vector<int64_t> ids;
    for (int64_t t = 0; t <= c.context; ++t)
      ids.push_back(static_cast<int64_t>(rng.bits(static_cast<uint64_t>(s * 100000 + t))[0] %
                                         static_cast<uint64_t>(c.vocab)));
    targets.insert(targets.end(), ids.begin() + 1, ids.end());
    ids.pop_back();
    batch.add(ids);
  }
  return {std::move(batch), std::move(targets)};
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = "char-gpt", device_name = "cpu";
  int threads = 0, steps = 5;
  DType activations = DType::kF32;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--case")) name = argv[i + 1];
    if (!std::strcmp(argv[i], "--threads")) threads = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--steps")) steps = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--device")) device_name = argv[i + 1];
    if (!std::strcmp(argv[i], "--activations") && !std::strcmp(argv[i + 1], "bf16"))
      activations = DType::kBF16;
  }
  for (const Case& c : kCases) {
    if (name != c.name) continue;
    const auto opened = open_device(device_name, threads);
    if (!opened.ok()) {
      fmt::print(stderr, "{}\n", opened.error().text());
      return 1;
    }
    Device& device = **opened;
    auto loaded = make_model(*config_of(c));
    Model& model = *loaded->model;
    initialize(model, 1);
    model.parameters().to(device.memory());
    OptimizerOptions o;
    o.weight_decay = 0.1, o.beta2 = 0.95;
    auto optimizer = Optimizer::make(model.parameters(), o);
    const auto [batch, targets] = synthetic_batch(c);
    std::vector<double> times, losses;
    for (int step = 0; step < steps + 2; ++step) {
      const double start = bench::seconds();
      StepOptions options{3e-4, 1.0};
      options.activations = activations;
      const StepResult r = train_step(model, *optimizer, device, batch, targets, options);
      if (step >= 2) times.push_back(bench::seconds() - start);
      losses.push_back(r.loss);
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    fmt::print(
        "{{\"case\": \"{}\", \"threads\": {}, \"tokens\": {}, \"seconds\": [{:.5f}], \"first_loss\": {:.5f}, "
        "\"last_loss\": {:.5f}, \"peak_mb\": {}}}\n",
        c.name, device.threads(), c.sequences * c.context, fmt::join(times, ", "), losses.front(),
        losses.back(), usage.ru_maxrss / 1024);
    return 0;
  }
  fmt::print(stderr, "unknown case {}\n", name);
  return 2;
}
