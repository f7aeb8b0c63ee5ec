#include "infer/generate.h"

namespace makar {

Result<std::vector<std::vector<int64_t>>> generate_all(const Model& model, Device& device,
                                                       std::vector<int64_t> prompt,
                                                       const GenerateOptions& o) {
  const ContextOptions& context = o.engine.context;
  MAKAR_RETURN_IF_ERROR(check_context(model.spec(), context));
  MAKAR_RETURN_IF_ERROR(fit_request(model, context, prompt, o, o.images.get()));
  DecodingHooks hooks;
  hooks.images = o.images;
  if (o.on_token)
    hooks.on_token = [&o](int64_t answer, const GeneratedToken& token) {
      if (answer == 0) o.on_token(token.id);
      return true;
    };
  const auto job =
      make_job(model, context, prompt, o, o.stop.empty() ? model.spec().eos : o.stop, std::move(hooks));
  Engine engine(model, device, o.engine);
  engine.submit(job);
  engine.run();
  if (job->error) return *job->error;
  const std::vector<int64_t> initial_tokens = decoder_prompt(model, prompt);
  std::vector<std::vector<int64_t>> out;
  std::vector<Answer> answers = job->answers();
  if (o.best_of > 0) {
    for (Answer& answer : answers) answer.score = answer.mean_logprob();
    keep_best(answers, o.answers);
  }
  for (const Answer& answer : answers) {
    out.push_back(initial_tokens);
    for (const GeneratedToken& token : answer.tokens) out.back().push_back(token.id);
  }
  return out;
}

Result<std::vector<int64_t>> generate(const Model& model, Device& device, const std::vector<int64_t>& prompt,
                                      const GenerateOptions& options) {
  MAKAR_TRY(auto all, generate_all(model, device, prompt, options));
  return std::move(all.front());
}

}  // namespace makar
