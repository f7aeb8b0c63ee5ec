#include "llm/text_generation.h"

#include "llm/bayes_risk.h"

namespace makar {

const char* name(Finish finish) {
  switch (finish) {
    case Finish::kUnfinished:
      return "none";
    case Finish::kStop:
    case Finish::kStoppedByCaller:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kTime:
      return "time";
    case Finish::kLowProbability:
      return "unsure";
  }
  return "none";
}

Status check_generation(const TextGenerationOptions& o) {
  MAKAR_RETURN_IF_ERROR(check_decoding(o));
  if (o.speculation.draft_tokens < 1 || o.speculation.draft_tokens > 64)
    return error_at("`draft_max`", "must be 1 to 64, got {}", o.speculation.draft_tokens);
  if (o.mbr != 0 && (o.mbr < 2 || o.mbr > 1024))
    return error_at("`mbr`", "must be 2 to 1024 answers, or 0 for off; got {}", o.mbr);
  if (o.mbr > 0 && (o.beams > 1 || o.penalty_alpha > 0 || o.best_of > 0))
    return error_at("`mbr`", "cannot be combined with `beams`, `penalty_alpha` or `best_of`");
  if (o.mbr > 0 && o.mbr < o.answers) return error_at("`mbr`", "{} is less than `n` ({})", o.mbr, o.answers);
  if (o.constraint && (o.ignore_eos || o.min_new_tokens > 0))
    return error_at(o.ignore_eos ? "`ignore_eos`" : "`min_tokens`",
                    "cannot be combined with a grammar: a constrained answer ends where it is complete");
  if (o.constraint && (o.beams > 1 || o.penalty_alpha > 0))
    return error_at("options", "beam search and contrastive search support no grammar; sample instead");
  return Done{};
}

int64_t fitting_tokens(const ModelSpec& spec, const ContextOptions& context, size_t prompt_tokens,
                       int64_t max_new_tokens) {
  const int64_t size = context_size(spec, context);
  if (size <= 0 || context.policy != ContextPolicy::kError) return max_new_tokens;
  const int64_t used = spec.is_encoder_decoder() ? 1 : static_cast<int64_t>(prompt_tokens);
  return std::clamp<int64_t>(size - used + 1, 1, max_new_tokens);
}

bool TextGeneration::deliver(size_t answer, const std::string& text) {
  texts_[answer] += text;
  return text.empty() || !streaming_ || options_.on_text(static_cast<int64_t>(answer), text);
}

Result<std::unique_ptr<TextGeneration>> TextGeneration::begin(Engine& engine, const LanguageModel& language,
                                                              std::vector<int64_t> prompt,
                                                              const TextGenerationOptions& options) {
  const ContextOptions& context = engine.options().context;
  Decoding decoding = options;
  if (options.fit)
    decoding.max_new_tokens = fitting_tokens(language.spec(), context, prompt.size(), options.max_new_tokens);
  MAKAR_RETURN_IF_ERROR(fit_request(language.model(), context, prompt, decoding, options.images.get()));
  if (options.mbr > 0) decoding.answers = options.mbr;
  if (options.mbr > 0 && options.mbr_embedding && !options.embedder)
    return error_at("mbr_metric", "embedding needs an embedding model; set `program.mbr_model`");
  const int64_t sampled = std::max(decoding.answers, decoding.best_of);

  std::unique_ptr<TextGeneration> out(new TextGeneration(engine, options));
  out->streaming_ = options.on_text && sampled == options.answers;
  out->texts_.resize(static_cast<size_t>(sampled)), out->pushed_.resize(static_cast<size_t>(sampled));
  const std::vector<int64_t> context_ids = decoder_prompt(language.model(), prompt);
  for (int64_t i = 0; i < sampled; ++i)
    out->streams_.emplace_back(language.tokenizer(), options.stop, !options.keep_special, context_ids);
  DecodingHooks hooks;
  hooks.constraint = options.constraint, hooks.images = options.images;
  const Speculation& speculation = options.speculation;
  hooks.draft_tokens = speculation.draft_tokens;
  if (speculation.draft_model)
    hooks.drafter = speculation.draft_model();
  else if (speculation.lookup)
    hooks.drafter = std::make_shared<LookupDrafter>();
  hooks.on_token = [self = out.get()](int64_t answer, const GeneratedToken& token) {
    const auto at = static_cast<size_t>(answer);
    ++self->pushed_[at];
    if (self->streaming_ && self->options_.on_token) self->options_.on_token(answer, token);
    return self->deliver(at, self->streams_[at].push(token.id)) && !self->streams_[at].stopped();
  };
  out->prompt_tokens_ = static_cast<int64_t>(prompt.size());
  out->steps_before_ = engine.stats().steps;
  out->job_ = make_job(language.model(), context, prompt, decoding, language.stop_ids(), std::move(hooks));
  out->job_->adapter = options.adapter, out->job_->salt = options.salt;
  out->job_->priority = options.priority;
  engine.submit(out->job_);
  return out;
}

TextGeneration::~TextGeneration() {
  if (job_) engine_.cancel(*job_);
}

Result<TextGenerationResult> TextGeneration::finish() {
  check(done(), "finish() requires done()");
  if (job_->error) return *job_->error;
  TextGenerationResult out;
  for (size_t i = 0; i < job_->answers().size(); ++i) {
    const Answer& answer = job_->answers()[i];
    // Beam and contrastive answers are converted to text only when finished.
    for (size_t t = pushed_[i]; t < answer.tokens.size(); ++t)
      deliver(i, streams_[i].push(answer.tokens[t].id));
    deliver(i, streams_[i].finish());
    GeneratedText& text = out.answers.emplace_back();
    static_cast<Answer&>(text) = answer;
    text.text = texts_[i];
    if (streams_[i].stopped()) text.finish = Finish::kStop, text.stop_string = streams_[i].stop_string();
    if (options_.best_of > 0) text.score = text.mean_logprob();
  }
  if (options_.mbr > 0) {
    MAKAR_TRY(const std::vector<double> scores, options_.mbr_embedding
                                                    ? expected_cosine(*options_.embedder, texts_)
                                                    : expected_overlap(options_.mbr_metric, texts_));
    for (size_t i = 0; i < scores.size(); ++i) out.answers[i].score = scores[i];
  }
  if (options_.rank && options_.best_of > 0 && !options_.rank_prompt.is_null()) {
    MAKAR_TRY(const std::vector<double> scores, options_.rank(options_.rank_prompt, texts_));
    for (size_t i = 0; i < scores.size(); ++i) out.answers[i].score = scores[i];
  }
  if (options_.mbr > 0 || options_.best_of > 0) keep_best(out.answers, options_.answers);
  if (options_.on_text && !streaming_)
    for (size_t i = 0; i < out.answers.size(); ++i)
      options_.on_text(static_cast<int64_t>(i), out.answers[i].text);
  if (const auto* sample = dynamic_cast<const SampleJob*>(job_.get()))
    out.drafted_tokens = sample->drafted_tokens(), out.accepted_tokens = sample->accepted_tokens();
  out.prompt_tokens = prompt_tokens_, out.reused_tokens = job_->reused_tokens.value_or(0);
  out.steps = engine_.stats().steps - steps_before_;
  return out;
}

Result<TextGenerationResult> generate_text(Engine& engine, const LanguageModel& language,
                                           std::vector<int64_t> prompt,
                                           const TextGenerationOptions& options) {
  MAKAR_TRY(const auto generation, TextGeneration::begin(engine, language, std::move(prompt), options));
  while (!generation->done() && engine.step()) {
  }
  return generation->finish();
}

}  // namespace makar
