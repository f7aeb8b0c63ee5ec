// Greedy and beam search of the fixtures.
#include <fmt/format.h>

#include <algorithm>

#include "golden/compare.h"
#include "infer/generate.h"

namespace makar::golden {
namespace {

std::string describe(const Json& args) {
  std::string text;
  for (const auto& [key, value] : args.items())
    if (key != "do_sample" && key != "max_new_tokens" && key != "pad_token_id" && key != "eos_token_id")
      text += " " + key + "=" + value.dump();
  return text;
}

}  // namespace

void compare_generation(const Model& model, Device& device, const Json& runs, bool recovered, Tally& tally) {
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

}  // namespace makar::golden
