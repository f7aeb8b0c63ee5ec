// makar bench: tokens per second of a model on this machine, for prefill and decode, alone and batched.
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "base/rng.h"
#include "cli/engine_flags.h"
#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "models/adapter.h"
#include "models/inspect.h"

namespace makar {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int64_t> random_tokens(const Model& model, int64_t count, uint64_t salt) {
  std::vector<int64_t> ids;
  const Rng rng(salt, Purpose::kSynthetic);
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int64_t>(rng.uniform_double(static_cast<uint64_t>(i)) *
                                       static_cast<double>(model.spec().vocab)));
  return ids;
}

// Seconds that `batch` concurrent requests take. With more than one generated token, the prefill step is not
// timed.
double seconds(const Model& model, Device& device, const CacheTypes& cache, int64_t batch, int64_t prompt,
               int64_t generated, uint64_t salt) {
  EngineOptions o;
  o.cache = cache;
  o.share_prefixes = false;
  o.step_tokens = std::max<int64_t>(512, batch * prompt);
  Engine engine(model, device, o);
  for (int64_t i = 0; i < batch; ++i) {
    SampleRequest r;
    r.prompt = random_tokens(model, prompt, salt * 1000 + static_cast<uint64_t>(i));
    r.max_new_tokens = generated;
    engine.submit(std::make_shared<SampleJob>(std::move(r)));
  }
  if (generated > 1) engine.step();  // prefill of all prompts; decode is timed from the second token on
  const auto begin = Clock::now();
  engine.run();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Figure {
  double mean = 0, deviation = 0;
};

Figure measure(int64_t rounds, double tokens, const std::function<double(uint64_t)>& run) {
  run(0);  // warm-up
  std::vector<double> rates;
  Figure f;
  for (int64_t i = 1; i <= rounds; ++i) rates.push_back(tokens / run(static_cast<uint64_t>(i)));
  for (const double r : rates) f.mean += r / static_cast<double>(rates.size());
  for (const double r : rates) f.deviation += (r - f.mean) * (r - f.mean) / static_cast<double>(rates.size());
  f.deviation = std::sqrt(f.deviation);
  return f;
}

// Cost per token: bytes of weights, states and cached keys and values that a decode step reads (states:
// and writes), and operations per prefill token (a multiply-add counts as two).
struct StepCost {
  double bytes = 0, read_bytes = 0, context_bytes = 0, operations = 0;
  bool int8 = false;
};

// What the layers of one sequence read besides weights, with this many tokens in the context.
double context_bytes(const StackSpec& stack, const CacheTypes& cache, int64_t tokens) {
  double bytes = 0;
  for (const BlockSpec& b : stack.blocks) {
    const AttentionSpec& a = b.attention;
    const int64_t seen = a.window > 0 ? std::min(a.window, tokens) : tokens;
    if (b.mixer)
      bytes += 2.0 * static_cast<double>(b.mixer->state_size()) * sizeof(float);
    else if (!b.recurrent && !b.alignment)
      for (const DType type : {cache.k, cache.v})
        bytes += static_cast<double>(seen) * static_cast<double>(bytes_of(type, a.kv_heads * a.head_dim));
  }
  return bytes;
}

// What a step reads of a parameter: a model that computes in bf16 holds its matrices of floats in bf16.
double weight_bytes(const Parameter& p, const Model& model) {
  const bool rounded =
      model.activations() == DType::kBF16 && p.value.rank() == 2 && !is_block(p.value.dtype());
  return static_cast<double>(rounded ? bytes_of(DType::kBF16, p.value.count()) : p.value.bytes());
}

Result<StepCost> cost_of(const std::string& path, const Model& model, int64_t prompt, const CacheTypes& cache,
                         int64_t context) {
  MAKAR_TRY(const Inspection i, inspect_model(path, {std::max<int64_t>(1, prompt / 2)}));
  StepCost c;
  bool head = false, f16_pairs = false;
  double table = 0;
  for (const auto& p : model.parameters().all()) {
    c.bytes += weight_bytes(*p, model);
    c.int8 = c.int8 || is_block(p->value.dtype());
    f16_pairs = f16_pairs || p->value.dtype() == DType::kF16_64;
    head = head || p->name == "head.lm.weight";
    if (p->name.find(".embed.") != p->name.npos) table += weight_bytes(*p, model);
  }
  // Not read: an embedding table that is only looked up, and experts that the token is not routed to.
  c.read_bytes =
      (c.bytes - (head ? table : 0)) * static_cast<double>(i.active) / static_cast<double>(i.parameters);
  c.context_bytes = context_bytes(model.spec().main(), cache, context);
  // Prefill computes logits only for the last token of the prompt.
  const double logits = 2.0 * static_cast<double>(model.spec().main().width * model.spec().vocab);
  c.operations = i.costs.back().total() - logits + logits / static_cast<double>(std::max<int64_t>(1, prompt));
  if (f16_pairs) c.operations *= 3;  // three products: high x high, high x low, low x high
  return c;
}

}  // namespace

int run_bench(const std::vector<std::string>& arguments) {
  ModelOptions model;
  EngineFlags engine;
  int64_t prompt = 512, generated = 128, depth = 0, rounds = 3;
  std::vector<std::string> batches;
  bool json = false;
  Options options("bench",
                  "Measure tokens per second on this machine: prefill (pp) and generation (tg), alone and "
                  "batched.",
                  "makar bench MODEL -p 512 -n 128 -d 128 -b 1 -b 8");
  model.declare(options, "MODEL");
  model.declare_device(options);
  options.group("Cases");
  options.add("-p --n-prompt", &prompt, "prompt tokens of the prefill case; 0 skips it", "N");
  options.add("-n --n-gen", &generated, "tokens to generate; 0 skips these cases", "N");
  options.add("-d --n-depth", &depth, "tokens in the context before generation", "N");
  options.add("-b --batch", &batches,
              "number of requests in a batch; may be repeated; 1, 4, 8 and 16 if not set", "N");
  options.add("-r --repetitions", &rounds, "number of runs per case", "N");
  options.group("Output");
  options.add("--json", &json, "print one JSON object per case");
  engine.declare_cache(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto out_of_range = [](int64_t n) { return n < 0 || n > 1000000; };
  if (rounds < 1 || out_of_range(prompt) || out_of_range(generated) || out_of_range(depth))
    return report(error_at("bench", "-r must be at least 1, -p, -n and -d 0 to 1000000")), 2;
  depth = std::max<int64_t>(depth, 1);
  const auto budget = engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const CacheTypes cache = budget->cache;
  if (batches.empty()) batches = {"1", "4", "8", "16"};
  const auto compute = model.open_device();
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto start = Clock::now();
  model.model = resolve_model(model.model);
  auto loaded = load_model(model.model);
  if (!loaded.ok()) return report(loaded.error());
  if (const Status s = load_adapters(*loaded, model.adapters, device); !s.ok()) return report(s.error());
  const Model& m = *loaded->model;
  if (!m.spec().continues_text())
    return report(error_of(Error::Kind::kUnsupported, model.model,
                           "bench runs decoder-only models, this is a {}", m.spec().architecture));
  if (m.spec().max_positions > 0 && std::max(prompt, depth + generated) > m.spec().max_positions)
    return report(error_of(Error::Kind::kLimit, "bench", "the model has {} positions; reduce -p, -n or -d",
                           m.spec().max_positions)),
           2;
  loaded->model->pack(device, false, model.activations());
  const double load = std::chrono::duration<double>(Clock::now() - start).count();
  const auto cost = cost_of(model.model, m, prompt, cache, depth + generated / 2);
  if (!cost.ok()) return report(cost.error());
  const MachineLimits limits = device.measure_limits();
  const bool int8 = cost->int8 && limits.int8 > 0;
  const double peak = int8 ? limits.int8 : limits.f32;
  if (!json)
    fmt::print(
        "{}, {:.1f} MB of weights, {} threads, loaded in {:.2f} s\nthis machine: {:.1f} GB/s from memory, "
        "{:.0f} "
        "GOP/s in {}\n{:<20} {:>12}  {:>8}\n",
        m.spec().architecture, cost->bytes * 1e-6, device.threads(), load, limits.bytes * 1e-9, peak * 1e-9,
        int8 ? "int8" : "f32", "case", "tokens/s", "+-");
  const auto show = [&](const std::string& name, const Figure& f, int64_t batch) {
    const bool prefill = name.starts_with("pp");
    const double rate =
        f.mean *
        (prefill ? cost->operations : cost->read_bytes / static_cast<double>(batch) + cost->context_bytes);
    const double share = rate / (prefill ? peak : limits.bytes);
    if (json) {
      fmt::print("{}\n", Json{{"bench", "model"},
                              {"case", name},
                              {"threads", device.threads()},
                              {"ours", f.mean},
                              {"unit", "tok/s"},
                              {"spread", f.deviation / f.mean},
                              {prefill ? "operations_per_s" : "bytes_per_s", rate},
                              {"of_limit", share}}
                             .dump());
      return;
    }
    fmt::print("{:<20} {:>12.2f}  {:>8.2f}  {:.1f} {}, {:.0f} % of the limit\n", name, f.mean, f.deviation,
               rate * 1e-9, prefill ? "GOP/s" : "GB/s of weights and context", share * 100);
    std::fflush(stdout);
  };
  if (prompt > 0)
    show(fmt::format("pp{}", prompt),
         measure(rounds, static_cast<double>(prompt),
                 [&](uint64_t salt) { return seconds(m, device, cache, 1, prompt, 1, salt); }),
         1);
  for (const std::string& text : batches) {
    const int64_t batch = std::atoll(text.c_str());
    if (batch < 1 || batch > 1024) return report(error_at("--batch", "must be 1 to 1024, got '{}'", text)), 2;
    if (generated < 2) break;
    show(fmt::format("tg{}{}{}", generated, depth > 1 ? fmt::format(" @ d{}", depth) : "",
                     batch > 1 ? fmt::format(" x {}", batch) : ""),
         measure(rounds, static_cast<double>(batch * (generated - 1)),
                 [&](uint64_t salt) { return seconds(m, device, cache, batch, depth, generated, salt); }),
         batch);
  }
  return 0;
}

}  // namespace makar
