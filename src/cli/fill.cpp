// makar fill: the words that a masked language model predicts.
#include "llm/fill.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/text_io.h"

namespace makar {

int run_fill(const std::vector<std::string>& arguments) {
  ModelOptions model;
  std::vector<std::string> words, files;
  int64_t top = 5;
  bool json = false;
  Options options("fill", "Predict the most probable words for each [MASK] (or <mask>) of a text.",
                  "makar fill -m MODEL \"The capital of France is [MASK].\"");
  model.declare(options);
  declare_device(options, model.device);
  options.group("Text");
  options.positional("TEXT", &words, "the text; standard input if there is none").required = false;
  options.add("-f --file", &files, "read the text from a file", "FILE");
  options.group("Output");
  options.add("-k --top", &top, "number of words to print for each mask", "N");
  options.add("--json", &json, "print one JSON object per mask");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (top < 1 || top > 1000) return report(error_at("--top", "must be 1 to 1000, got {}", top)), 2;
  const auto opened = open_on_device(model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  std::string text = fmt::format("{}", fmt::join(words, " "));
  if (words.empty()) {
    const auto input = read_whole(files);
    if (!input.ok()) return report(input.error());
    text = *input;
  }
  Engine engine(language->model(), device);
  const auto predictions = fill(engine, *language, text, top);
  if (!predictions.ok()) return report(predictions.error());
  for (const MaskPrediction& prediction : *predictions) {
    Json answers = Json::array();
    if (!json && predictions->size() > 1) fmt::print("token {}:\n", prediction.position);
    for (const auto& t : prediction.top) {
      const std::string token = language->tokenizer().token(static_cast<uint32_t>(t.id)).value_or("?");
      if (json)
        answers.push_back({{"token", token}, {"id", t.id}, {"score", std::exp(t.logprob)}});
      else
        fmt::print("{:8.4f}  {}\n", std::exp(t.logprob), token);
    }
    if (json) fmt::print("{}\n", dump({{"position", prediction.position}, {"answers", answers}}));
  }
  return 0;
}

}  // namespace makar
