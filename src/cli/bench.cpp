// makar bench: tokens per second of a model on this machine, for prefill and decode, alone and batched.
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "base/rng.h"
#include "cli/engine_flags.h"
#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "infer/sample_job.h"
#include "models/adapter.h"
#include "models/inspect.h"

namespace makar {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int64_t> random_tokens(const Model& model, int64_t count, uint64_t seed) {
  std::vector<int64_t> ids;
  const Rng rng(seed, Purpose::kSynthetic);
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int64_t>(rng.uniform_double(static_cast<uint64_t>(i)) *
                                       static_cast<double>(model.spec().vocab)));
  return ids;
}

// Runs concurrent requests on one engine, whose pages and recorded steps serve all rounds.
class Requests {
 public:
  Requests(const Model& model, Device& device, const CacheTypes& cache, int64_t batch, int64_t prompt,
           int64_t generated)
      : batch_(batch),
        prompt_(prompt),
        generated_(generated),
        engine_(model, device, options(cache, batch * prompt)) {}

  // The seconds that one round takes. With more than one generated token, the prefill step is not timed.
  double time(uint64_t seed) {
    for (int64_t i = 0; i < batch_; ++i) {
      SampleRequest r;
      r.prompt = random_tokens(engine_.model(), prompt_, seed * 1000 + static_cast<uint64_t>(i));
      r.max_new_tokens = generated_;
      engine_.submit(std::make_shared<SampleJob>(std::move(r)));
    }
    if (generated_ > 1) engine_.step();  // prefill of all prompts; decode is timed from the second token on
    const auto begin = Clock::now();
    engine_.run();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  static EngineOptions options(const CacheTypes& cache, int64_t rows) {
    EngineOptions o;
    o.cache = cache;
    o.share_prefixes = false;
    o.step_tokens = std::max<int64_t>(512, rows);
    return o;
  }

  int64_t batch_, prompt_, generated_;
  Engine engine_;
};

struct Throughput {  // tokens per second
  double mean = 0, deviation = 0;
};

// Runs one case `rounds` times after a warm-up; `run` gets a seed and returns seconds for `tokens` tokens.
Throughput measure(int64_t rounds, double tokens, const std::function<double(uint64_t)>& run) {
  run(0);  // warm-up
  std::vector<double> rates;
  Throughput out;
  for (int64_t i = 1; i <= rounds; ++i) rates.push_back(tokens / run(static_cast<uint64_t>(i)));
  for (const double r : rates) out.mean += r / static_cast<double>(rates.size());
  for (const double r : rates)
    out.deviation += (r - out.mean) * (r - out.mean) / static_cast<double>(rates.size());
  out.deviation = std::sqrt(out.deviation);
  return out;
}

struct StepCost {
  double bytes = 0;          // of all weights
  double read_bytes = 0;     // of the weights that a decode step reads
  double context_bytes = 0;  // of keys, values and states that a decode step reads or writes per sequence
  double operations = 0;     // per prefill token; a multiply-add counts as two
  bool int8 = false;         // has quantized weights, whose products run in int8
};

// Bytes of cached keys and values that a step reads per sequence with `tokens` tokens in the context, and of
// states, which it reads and writes.
double context_bytes(const StackSpec& stack, const CacheTypes& cache, int64_t tokens) {
  double bytes = 0;
  for (const BlockSpec& b : stack.blocks) {
    const AttentionSpec& a = b.attention;
    const int64_t visible = a.window > 0 ? std::min(a.window, tokens) : tokens;
    if (b.mixer)
      bytes += 2.0 * static_cast<double>(b.mixer->state_size()) * sizeof(float);
    else if (!b.recurrent && !b.alignment)
      for (const DType type : {cache.k, cache.v})
        bytes += static_cast<double>(visible) * static_cast<double>(bytes_of(type, a.kv_heads * a.head_dim));
  }
  return bytes;
}

// Bytes of a parameter that a step reads. A model that computes in bf16 stores its float matrices in bf16.
double weight_bytes(const Parameter& p, const Model& model) {
  const bool rounded =
      model.activations() == DType::kBF16 && p.value.rank() == 2 && !is_block(p.value.dtype());
  return static_cast<double>(rounded ? bytes_of(DType::kBF16, p.value.count()) : p.value.bytes());
}

Result<StepCost> cost_of(const std::string& path, const Model& model, int64_t prompt, const CacheTypes& cache,
                         int64_t context) {
  MAKAR_TRY(const Inspection inspection, inspect_model(path, {std::max<int64_t>(1, prompt / 2)}));
  StepCost c;
  bool has_head = false, f16_pairs = false;
  double embedding_bytes = 0;
  for (const auto& p : model.parameters().all()) {
    c.bytes += weight_bytes(*p, model);
    c.int8 = c.int8 || is_block(p->value.dtype());
    f16_pairs = f16_pairs || p->value.dtype() == DType::kF16_64;
    has_head = has_head || p->name == "head.lm.weight";
    if (p->name.find(".embed.") != p->name.npos) embedding_bytes += weight_bytes(*p, model);
  }
  // Not read: an embedding table that is only looked up, and experts that the token is not routed to.
  c.read_bytes = (c.bytes - (has_head ? embedding_bytes : 0)) * static_cast<double>(inspection.active) /
                 static_cast<double>(inspection.parameters);
  c.context_bytes = context_bytes(model.spec().main(), cache, context);
  // Prefill computes logits only for the last token of the prompt.
  const double logits = 2.0 * static_cast<double>(model.spec().main().width * model.spec().vocab);
  c.operations =
      inspection.costs.back().total() - logits + logits / static_cast<double>(std::max<int64_t>(1, prompt));
  if (f16_pairs) c.operations *= 3;  // three products: high x high, high x low, low x high
  return c;
}

struct BenchCommand {
  ModelOptions model;
  EngineFlags engine;
  int64_t prompt = 512, generated = 128, depth = 0, rounds = 3;
  std::vector<std::string> batches;
  bool json = false;
};

void declare(Options& options, BenchCommand& c) {
  c.model.declare(options, "MODEL");
  c.model.declare_device(options);
  options.group("Cases");
  options.add("-p --n-prompt", &c.prompt, "prompt tokens of the prefill case; 0 skips it", "N");
  options.add("-n --n-gen", &c.generated, "tokens to generate per request; below 2 skips the decode cases",
              "N");
  options.add("-d --n-depth", &c.depth, "tokens in the context before generation", "N");
  options.add("-b --batch", &c.batches,
              "number of requests in a batch; may be repeated; 1, 4, 8 and 16 if not set", "N");
  options.add("-r --repetitions", &c.rounds, "number of runs per case", "N");
  options.group("Output");
  options.add("--json", &c.json, "print one JSON object per case");
  c.engine.declare_cache(options);
}

Status check(BenchCommand& c) {
  for (const auto& [flag, value] : {std::pair("-p", c.prompt), {"-n", c.generated}, {"-d", c.depth}})
    if (value < 0 || value > 1000000) return error_at(flag, "must be 0 to 1000000, got {}", value);
  if (c.rounds < 1) return error_at("-r", "must be 1 or more, got {}", c.rounds);
  c.depth = std::max<int64_t>(c.depth, 1);
  if (c.batches.empty()) c.batches = {"1", "4", "8", "16"};
  for (const std::string& text : c.batches)
    if (const int64_t batch = std::atoll(text.c_str()); batch < 1 || batch > 1024)
      return error_at("--batch", "must be 1 to 1024, got '{}'", text);
  return Done{};
}

// Prints the cases of one model with their share of the machine's limits.
class BenchReport {
 public:
  BenchReport(const StepCost& cost, const Device& device, const MachineLimits& limits, bool json)
      : cost_(cost),
        device_(device),
        limits_(limits),
        json_(json),
        int8_(cost.int8 && limits.int8_operations_per_second > 0) {}

  void print_header(const std::string& architecture, double load_seconds) const {
    if (json_) return;
    fmt::print(
        "{}, {:.1f} MB of weights, {} threads, loaded in {:.2f} s\nthis machine: {:.1f} GB/s from memory, "
        "{:.0f} GOP/s in {}\n{:<20} {:>12}  {:>8}\n",
        architecture, cost_.bytes * 1e-6, device_.threads(), load_seconds, limits_.bytes_per_second * 1e-9,
        peak() * 1e-9, int8_ ? "int8" : "f32", "case", "tokens/s", "+-");
  }

  void print_prefill(const std::string& name, const Throughput& f) const {
    const double rate = f.mean * cost_.operations;
    print(name, f, "operations_per_s", "GOP/s", rate, rate / peak());
  }
  void print_decode(const std::string& name, const Throughput& f, int64_t batch) const {
    const double rate = f.mean * (cost_.read_bytes / static_cast<double>(batch) + cost_.context_bytes);
    print(name, f, "bytes_per_s", "GB/s of weights and context", rate, rate / limits_.bytes_per_second);
  }

 private:
  double peak() const {
    return int8_ ? limits_.int8_operations_per_second : limits_.f32_operations_per_second;
  }

  void print(const std::string& name, const Throughput& f, const char* key, const char* unit, double rate,
             double share) const {
    if (json_)
      fmt::print("{}\n", Json{{"bench", "model"},
                              {"case", name},
                              {"threads", device_.threads()},
                              {"tokens_per_second", f.mean},
                              {"spread", f.deviation / f.mean},
                              {key, rate},
                              {"of_limit", share}}
                             .dump());
    else
      fmt::print("{:<20} {:>12.2f}  {:>8.2f}  {:.1f} {}, {:.0f} % of the limit\n", name, f.mean, f.deviation,
                 rate * 1e-9, unit, share * 100);
    std::fflush(stdout);
  }

  const StepCost& cost_;
  const Device& device_;
  const MachineLimits limits_;
  const bool json_, int8_;
};

void run_cases(const BenchCommand& c, const Model& m, Device& device, const CacheTypes& cache,
               const BenchReport& out) {
  if (c.prompt > 0) {
    Requests requests(m, device, cache, 1, c.prompt, 1);
    out.print_prefill(
        fmt::format("pp{}", c.prompt),
        measure(c.rounds, static_cast<double>(c.prompt), [&](uint64_t seed) { return requests.time(seed); }));
  }
  if (c.generated < 2) return;
  for (const std::string& text : c.batches) {
    const int64_t batch = std::atoll(text.c_str());
    Requests requests(m, device, cache, batch, c.depth, c.generated);
    out.print_decode(fmt::format("tg{}{}{}", c.generated, c.depth > 1 ? fmt::format(" @ d{}", c.depth) : "",
                                 batch > 1 ? fmt::format(" x {}", batch) : ""),
                     measure(c.rounds, static_cast<double>(batch * (c.generated - 1)),
                             [&](uint64_t seed) { return requests.time(seed); }),
                     batch);
  }
}

}  // namespace

int run_bench(const std::vector<std::string>& arguments) {
  BenchCommand c;
  Options options("bench",
                  "Measure tokens per second on this machine: prefill (pp) and generation (tg), alone and "
                  "batched.",
                  "makar bench MODEL -p 512 -n 128 -d 128 -b 1 -b 8");
  declare(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check(c); !checked.ok()) return report(checked.error()), 2;
  const auto budget = c.engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const auto compute = c.model.open_device();
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto start = Clock::now();
  const std::string path = resolve_model(c.model.model);
  auto loaded = load_model(path);
  if (!loaded.ok()) return report(loaded.error());
  if (const Status s = load_adapters(*loaded, c.model.adapters, device); !s.ok()) return report(s.error());
  const Model& m = *loaded->model;
  if (!m.spec().continues_text())
    return report(error_of(Error::Kind::kUnsupported, path, "bench runs decoder-only models, this is a {}",
                           m.spec().architecture));
  if (m.spec().max_positions > 0 && std::max(c.prompt, c.depth + c.generated) > m.spec().max_positions)
    return report(error_of(Error::Kind::kLimit, "bench", "the model has {} positions; reduce -p, -n or -d",
                           m.spec().max_positions)),
           2;
  loaded->model->pack(device, false, c.model.activations());
  const double load_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const auto cost = cost_of(path, m, c.prompt, budget->cache, c.depth + c.generated / 2);
  if (!cost.ok()) return report(cost.error());
  const BenchReport out(*cost, device, device.measure_limits(), c.json);
  out.print_header(m.spec().architecture, load_seconds);
  run_cases(c, m, device, budget->cache, out);
  return 0;
}

}  // namespace makar
