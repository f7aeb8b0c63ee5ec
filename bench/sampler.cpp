// Time of one draw with a vocabulary of 128,256, one JSON object per line. The peer is the straightforward
// method: probabilities with std::exp and a full std::sort of all tokens.
//   sampler [--json]
#include "infer/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/json.h"
#include "base/rng.h"
#include "bench/timing.h"

namespace {

constexpr size_t kVocab = 128256;

int64_t sample_with_full_sort(const std::vector<float>& logits, double temperature, double top_p, double u) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> p(logits.size());
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i)
    total += p[i] = std::exp((static_cast<double>(logits[order[i]]) - logits[order[0]]) / temperature);
  double mass = 0;
  size_t count = 0;
  while (count < p.size() && mass < top_p * total) mass += p[count++];
  double at = u * mass;
  for (size_t i = 0; i < count; ++i)
    if ((at -= p[i]) < 0) return static_cast<int64_t>(order[i]);
  return static_cast<int64_t>(order[count - 1]);
}

}  // namespace

int main() {
  using namespace makar;
  const Rng rng(1, Purpose::kSynthetic);
  std::vector<int64_t> tokens(2048);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = rng.bits(i)[2] % kVocab;
  struct Case {
    const char* name;
    void (*set)(SamplerOptions&);
  };
  const Case cases[] = {
      {"greedy", [](SamplerOptions& o) { o.temperature = 0; }},
      {"greedy, repetition penalty",
       [](SamplerOptions& o) { o.temperature = 0, o.repetition_penalty = 1.1; }},
      {"temperature", [](SamplerOptions&) {}},
      {"top-k 40", [](SamplerOptions& o) { o.top_k = 40; }},
      {"top-p 0.95", [](SamplerOptions& o) { o.top_p = 0.95; }},
      {"top-k 40, top-p 0.95, min-p 0.05",
       [](SamplerOptions& o) { o.top_k = 40, o.top_p = 0.95, o.min_p = 0.05; }},
      {"min-p 0.05", [](SamplerOptions& o) { o.min_p = 0.05; }},
      {"typical 0.9", [](SamplerOptions& o) { o.typical_p = 0.9; }},
      {"mirostat 2", [](SamplerOptions& o) { o.mirostat = 2; }},
  };
  for (const float scale : {1.0f, 4.0f}) {  // flat like random weights, and peaked like trained ones
    std::vector<float> logits(kVocab);
    for (size_t i = 0; i < kVocab; ++i) logits[i] = rng.normal(i) * scale;
    uint64_t index = 0;
    int64_t sink = 0;
    for (const Case& c : cases) {
      SamplerOptions o;
      o.temperature = 0.8;
      c.set(o);
      Sampler sampler(o);
      const auto times = bench::interleave(
          {[&] { sink += *sampler.next(logits, tokens, index++); },
           [&] { sink += sample_with_full_sort(logits, 0.8, o.top_p, rng.uniform_double(index++)); }},
          5, 0.02, 0, true);
      const double makar_value = bench::median(times[0].seconds_per_call) * 1e6,
                   peer_value = bench::median(times[1].seconds_per_call) * 1e6;
      fmt::print("{}\n", Json{{"bench", "sampler"},
                              {"case", fmt::format("{}, logits of spread {}", c.name, scale)},
                              {"threads", 1},
                              {"makar_value", makar_value},
                              {"peer", "full sort"},
                              {"peer_value", peer_value},
                              {"unit", "us"},
                              {"ratio", peer_value / makar_value},
                              {"spread", bench::spread(times[0].seconds_per_call)}}
                             .dump());
    }
    if (sink == -1) return 1;
  }
  return 0;
}
