// Greedy and beam search of the fixtures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "golden/compare.h"
#include "infer/generate.h"
#include "models/forward.h"

namespace makar::golden {
namespace {

std::string describe(const Json& args) {
  std::string text;
  for (const auto& [key, value] : args.items())
    if (key != "do_sample" && key != "max_new_tokens" && key != "pad_token_id" && key != "eos_token_id")
      text += " " + key + "=" + value.dump();
  return text;
}

// The log-probability of a generated sequence: after the prompt, or after the first token of a decoder with
// an encoder.
Result<double> log_probability(const Model& model, Device& device, const std::vector<int64_t>& prompt,
                               const std::vector<int64_t>& sequence) {
  const auto ids = [](const int64_t* from, size_t count) {
    Tensor t = Tensor::empty({1, static_cast<int64_t>(count)}, DType::kI64);
    std::copy_n(from, count, t.data<int64_t>());
    return t;
  };
  const bool encoder_decoder = model.spec().encoder && model.spec().decoder;
  std::map<std::string, Tensor> in = {
      {encoder_decoder ? "decoder_input_ids" : "input_ids", ids(sequence.data(), sequence.size() - 1)}};
  if (encoder_decoder) in["input_ids"] = ids(prompt.data(), prompt.size());
  MAKAR_TRY(auto out, forward_tensors(model, in, {device}, "a sequence"));
  const Tensor logits = out.at("logits").host();
  const int64_t vocab = logits.dim(2);
  double sum = 0;
  for (size_t i = encoder_decoder ? 1 : prompt.size(); i < sequence.size(); ++i) {
    const float* row = logits.f32() + static_cast<int64_t>(i - 1) * vocab;
    const double top = *std::max_element(row, row + vocab);
    double total = 0;
    for (int64_t v = 0; v < vocab; ++v) total += std::exp(row[v] - top);
    sum += row[sequence[i]] - top - std::log(total);
  }
  return sum;
}

// Whether two sequences of beam search are equally probable up to rounding.
bool equally_probable(const Model& model, Device& device, const std::vector<int64_t>& prompt,
                      const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size() || a.size() < 2) return false;
  const auto p = log_probability(model, device, prompt, a), q = log_probability(model, device, prompt, b);
  return p.ok() && q.ok() && std::fabs(*p - *q) <= 1e-6 * std::max(1.0, std::fabs(*q));
}

}  // namespace

void compare_generation(const Model& model, Device& device, const Json& runs, bool recovered, Tally& tally) {
  // Beyond longrope's original context, transformers drops all tokens before the last one.
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
    o.early_stop = args.value("early_stopping", false) ? EarlyStop::kYes : EarlyStop::kNo;
    const std::string what = o.beams > 1 ? "beams" : "greedy";
    for (size_t i = 0; i < run["input_ids"].size(); ++i) {
      const auto got = generate_all(model, device, run["input_ids"][i].get<std::vector<int64_t>>(), o);
      if (!got.ok()) return tally.fail(got.error().text());
      for (size_t r = 0; r < got->size(); ++r) {
        auto expected = run["sequences"][i * static_cast<size_t>(o.answers) + r].get<std::vector<int64_t>>();
        auto generated = (*got)[r];
        // Remove the padding: pad ids, or end ids, because transformers treats a pad id of 0 as missing.
        while (expected.size() > generated.size() &&
               (expected.back() == args["pad_token_id"] || expected.back() == o.stop[0]))
          expected.pop_back();
        const auto compare_only = [&](size_t max) {
          const size_t count = std::min({expected.size(), generated.size(), max});
          expected.resize(count), generated.resize(count);
        };
        if (recovered) compare_only(11);  // the rows of the position table that the fixture shows
        if (longrope) compare_only(static_cast<size_t>(rope->original_positions) + 1);
        if (generated == expected) continue;
        if (o.beams > 1 && equally_probable(model, device, run["input_ids"][i].get<std::vector<int64_t>>(),
                                            generated, expected))
          tally.note("beams of equal probability");
        else
          tally.fail(fmt::format("{}{} generated {} instead of {}", what, describe(args),
                                 fmt::join(generated, ","), fmt::join(expected, ",")));
      }
    }
    tally.add(what, 0, 1);
  }
}

}  // namespace makar::golden
