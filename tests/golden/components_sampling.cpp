// Golden logits processors of transformers: `lp.NAME_VALUE` is the output of one of them for the logits
// `lp.scores` after the tokens `lp.history`.
#include <cmath>

#include "golden/fixture.h"
#include "infer/sampler.h"

namespace makar::golden {
namespace {

// Masked tokens must be the same; the others are compared as norms.
double processor_error(const Tensor& scores, const Tensor& history, const Tensor& recorded,
                       const SamplerOptions& options) {
  Tensor got = Tensor::empty(scores.shape()), expected = Tensor::empty(scores.shape());
  const int64_t rows = scores.dim(0), width = scores.dim(1), length = history.dim(1);
  std::copy_n(scores.f32(), scores.count(), got.f32());
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<float> logits(got.f32() + row * width, static_cast<size_t>(width));
    const std::span<const int64_t> tokens(history.i64() + row * length, static_cast<size_t>(length));
    check(Sampler(options).apply(logits, tokens).ok(), "the sampler rejects the scores");
  }
  for (int64_t i = 0; i < got.count(); ++i) {
    const bool masked = std::isinf(recorded.f32()[i]);
    check(std::isinf(got.f32()[i]) == masked, fmt::format("token {} is masked in one only", i));
    expected.f32()[i] = masked ? 0 : recorded.f32()[i];
    if (masked) got.f32()[i] = 0;
  }
  return relative_error(got, expected);
}

}  // namespace

void add_logits_processors(const Fixture& fixture, std::vector<GoldenLine>& lines) {
  const std::pair<const char*, void (*)(SamplerOptions&, double)> processors[] = {
      {"temperature", [](SamplerOptions& o, double v) { o.temperature = v; }},
      {"top_k", [](SamplerOptions& o, double v) { o.top_k = static_cast<int64_t>(v); }},
      {"top_p", [](SamplerOptions& o, double v) { o.top_p = v; }},
      {"min_p", [](SamplerOptions& o, double v) { o.min_p = v; }},
      {"typical", [](SamplerOptions& o, double v) { o.typical_p = v; }},
      {"epsilon", [](SamplerOptions& o, double v) { o.epsilon_cutoff = v; }},
      {"eta", [](SamplerOptions& o, double v) { o.eta_cutoff = v; }},
      {"repetition", [](SamplerOptions& o, double v) { o.repetition_penalty = v; }},
      {"no_repeat_ngram",
       [](SamplerOptions& o, double v) { o.no_repeat_ngram_size = static_cast<int64_t>(v); }},
  };
  for (const std::string& name : fixture.names()) {
    if (name.rfind("lp.", 0) != 0 || name == "lp.scores" || name == "lp.history") continue;
    const size_t split = name.rfind('_');
    const std::string kind = name.substr(3, split - 3);
    SamplerOptions options;
    options.temperature = 1;
    bool known = false;
    for (const auto& [processor, set] : processors)
      if (kind == processor) set(options, std::stod(name.substr(split + 1))), known = true;
    lines.push_back(known ? measure("components/" + name, kValueLimit,
                                    [&] {
                                      return processor_error(fixture.get("lp.scores"),
                                                             fixture.get("lp.history"), fixture.get(name),
                                                             options);
                                    })
                          : skipped("components/" + name, "this processor is not implemented"));
  }
}

}  // namespace makar::golden
