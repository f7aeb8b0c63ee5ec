// makar fill: the words a masked language model expects.
#include "llm/fill.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/model_options.h"
#include "cli/run.h"

namespace makar {

int run_fill(const std::vector<std::string>& arguments) {
  ModelOptions model;
  std::vector<std::string> words;
  int64_t top = 5;
  bool json = false;
  Options options("fill", "The most probable words for each [MASK] (or <mask>) of a text.",
                  "makar fill -m MODEL \"The capital of France is [MASK].\"");
  model.declare(options);
  options.positional("TEXT", &words, "the text").required = true;
  options.add("-k --top", &top, "words to show for each gap", "N");
  options.add("--json", &json, "print one JSON object a gap");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (top < 1 || top > 1000) return report(error_at("--top", "must be 1 to 1000, got {}", top)), 2;
  ThreadPool pool(static_cast<int>(model.threads));
  const auto language = open_model(model, pool);
  if (!language.ok()) return report(language.error());
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  Engine engine(language->model(), pool);
  const auto gaps = fill(engine, *language, fmt::format("{}", fmt::join(words, " ")), top);
  if (!gaps.ok()) return report(gaps.error());
  for (const Gap& gap : *gaps) {
    Json answers = Json::array();
    if (!json && gaps->size() > 1) fmt::print("token {}:\n", gap.position);
    for (const auto& t : gap.top) {
      const std::string token = language->tokenizer().token(static_cast<uint32_t>(t.id)).value_or("?");
      if (json)
        answers.push_back({{"token", token}, {"id", t.id}, {"score", std::exp(t.logprob)}});
      else
        fmt::print("{:8.4f}  {}\n", std::exp(t.logprob), token);
    }
    if (json) fmt::print("{}\n", Json{{"position", gap.position}, {"answers", answers}}.dump());
  }
  return 0;
}

}  // namespace makar
