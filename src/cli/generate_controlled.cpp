#include "cli/generate_controlled.h"

#include <fmt/format.h>

#include "cli/run.h"
#include "cli/text_io.h"
#include "eval/engine_model.h"

namespace makar {

void ControlFlags::declare(Options& options) {
  options.group("Toxicity");
  options.add(
      "--control", &control.mode,
      "how to avoid toxic answers: none; reject: sample again; rewrite: let the model rewrite a toxic "
      "answer; steer: generate block by block and keep the least toxic of several candidates",
      "MODE");
  options.add("--classifier", &classifier,
              "toxicity classifier, a file of `makar classify train --method logistic`", "FILE");
  options.add("--benign", &benign,
              "the classifier's label for harmless texts, if it is not a common name such as `safe`",
              "LABEL");
  options.add("--threshold", &control.threshold, "an answer with at least this probability is toxic", "P");
  options.add("--attempts", &control.attempts, "reject, rewrite: maximum number of answers to generate", "N");
  options.add("--block", &control.block, "steer: tokens per block", "N");
  options.add("--candidates", &control.candidates, "steer: candidate blocks per step", "N");
}

Status ControlFlags::check() const {
  MAKAR_RETURN_IF_ERROR(check_control(control));
  if (on() && classifier.empty()) return error_at("--control", "needs --classifier, which measures toxicity");
  return Done{};
}

int run_controlled(Engine& engine, const LanguageModel& language, const std::string& prompt, bool chat,
                   bool json, const ControlFlags& flags, const TextGenerationOptions& options) {
  const auto classifier = ToxicityClassifier::open(flags.classifier, flags.benign);
  if (!classifier.ok()) return report(classifier.error());
  UntilRequest request;
  request.prompt = prompt, request.until = options.stop, request.max_tokens = options.max_new_tokens;
  request.temperature = options.sampler.temperature, request.top_p = options.sampler.top_p;
  request.seed = options.sampler.seed;
  if (chat) request.messages = Json::array({{{"role", "user"}, {"content", prompt}}});
  EngineModel model(engine, language, {});
  const auto answers = controlled_answers(model, std::span(&request, 1), *classifier, flags.control);
  if (!answers.ok()) return report(answers.error());
  const ControlledAnswer& answer = (*answers)[0];
  if (json)
    return print_out(dump({{"text", answer.text},
                           {"toxicity", answer.toxicity},
                           {"attempts", answer.attempts},
                           {"rejected", answer.rejected},
                           {"classifier", classifier->version()}}) +
                     "\n")
               ? 0
               : 1;
  if (answer.rejected)
    fmt::print(stderr, "makar: all {} answers were toxic; raise --attempts or --threshold\n",
               answer.attempts);
  return print_out(answer.text + "\n") ? 0 : 1;
}

}  // namespace makar
