#include "infer/generate.h"

#include <algorithm>

namespace makar {

Status check_request(const Model& model, const std::vector<int64_t>& prompt, int64_t max_new_tokens) {
  const ModelSpec& spec = model.spec();
  if (!spec.decoder || spec.head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, "generate",
                    "a {} does not write text; a causal or sequence-to-sequence model does",
                    spec.architecture);
  const bool both = spec.encoder.has_value();
  const int64_t vocab = (both ? *spec.encoder : *spec.decoder).embedding.vocab;
  if (prompt.empty()) return error_at("prompt", "is empty; at least one token id is needed");
  for (size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || prompt[i] >= vocab)
      return error_at("prompt", "token {} at place {} is outside of the vocabulary of {}", prompt[i], i,
                      vocab);
  const auto too_long = [&](int64_t length) { return spec.max_positions > 0 && length > spec.max_positions; };
  const int64_t length = static_cast<int64_t>(prompt.size());
  if (too_long((both ? 1 : length) + max_new_tokens - 1) || too_long(length))
    return error_of(
        Error::Kind::kLimit, "generate",
        "{} prompt and {} new tokens are more than the model's {} positions; ask for fewer with -n", length,
        max_new_tokens, spec.max_positions);
  if (both && spec.decoder_start < 0)
    return error_at("config.json", "has no decoder_start_token_id to begin with");
  return Done{};
}

std::vector<int64_t> decoder_prompt(const Model& model, const std::vector<int64_t>& prompt) {
  return model.spec().encoder ? std::vector<int64_t>{model.spec().decoder_start} : prompt;
}

namespace {

template <class Request>
Request request_for(const Model& model, const std::vector<int64_t>& prompt, const GenerateOptions& o) {
  Request r;
  r.prompt = decoder_prompt(model, prompt);
  r.max_new_tokens = o.max_new_tokens, r.answers = o.answers;
  r.sampler = o.sampler;
  r.stop = o.stop.empty() ? model.spec().eos : o.stop;
  return r;
}

}  // namespace

Result<std::vector<std::vector<int64_t>>> generate_all(const Model& model, ThreadPool& pool,
                                                       const std::vector<int64_t>& prompt,
                                                       const GenerateOptions& o) {
  MAKAR_CHECK_OK(check_request(model, prompt, o.max_new_tokens));
  EngineOptions engine_options;
  engine_options.step_tokens = std::max<int64_t>(o.chunk, 1);
  Engine engine(model, pool, engine_options);
  const std::vector<int64_t> begin = decoder_prompt(model, prompt);
  std::vector<std::vector<int64_t>> out;
  const auto run = [&](const std::shared_ptr<Job>& job) -> Status {
    if (model.spec().encoder) job->source = prompt;
    engine.submit(job);
    engine.run();
    if (job->error) return *job->error;
    return Done{};
  };
  if (o.beams > 1) {
    auto request = request_for<BeamRequest>(model, prompt, o);
    request.beams = o.beams, request.length_penalty = o.length_penalty, request.early = o.early;
    const auto job = std::make_shared<BeamJob>(std::move(request));
    MAKAR_CHECK_OK(run(job));
    for (const auto& answer : job->answers()) {
      out.push_back(begin);
      out.back().insert(out.back().end(), answer.tokens.begin(), answer.tokens.end());
    }
    return out;
  }
  auto request = request_for<SampleRequest>(model, prompt, o);
  if (o.on_token)
    request.on_token = [&o](int64_t answer, const Written& token) {
      if (answer == 0) o.on_token(token.id);
      return true;
    };
  const auto job = std::make_shared<SampleJob>(std::move(request));
  MAKAR_CHECK_OK(run(job));
  for (const auto& answer : job->answers()) {
    out.push_back(begin);
    for (const Written& token : answer.tokens) out.back().push_back(token.id);
  }
  return out;
}

Result<std::vector<int64_t>> generate(const Model& model, ThreadPool& pool,
                                      const std::vector<int64_t>& prompt, const GenerateOptions& options) {
  MAKAR_TRY(auto all, generate_all(model, pool, prompt, options));
  return std::move(all.front());
}

}  // namespace makar
