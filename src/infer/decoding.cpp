#include "infer/decoding.h"

#include "infer/contrastive_job.h"
#include "infer/sampler_options.h"

namespace makar {

namespace {

using O = Decoding;
constexpr const char *kOutput = "Output", *kSearch = "Search", *kLimits = "Limits";
constexpr DecodingOption kOptions[] = {
    {"-n max_tokens n_predict max_new_tokens", &O::max_new_tokens, 1, 1 << 30, "N",
     "maximum number of tokens to generate", kOutput},
    {"min_tokens min_new_tokens", &O::min_new_tokens, 0, 1 << 30, "N",
     "do not end an answer before this many tokens", kOutput},
    {"--answers n num_return_sequences", &O::answers, 1, 1024, "N", "number of answers to generate", kOutput},
    {"logprobs", &O::logprobs, -1, 100, "N",
     "print the log-probability of each token and of this many alternatives; -1 for none", kOutput},
    {"ignore_eos", &O::ignore_eos, 0, 0, "", "do not end the answer at the model's end tokens", kOutput},
    {"beams num_beams", &O::beams, 1, 256, "N", "beam search with this many beams; 1 for none", kSearch},
    {"beam_groups num_beam_groups", &O::beam_groups, 1, 256, "N",
     "diverse beam search: split the beams into this many groups", kSearch},
    {"diversity_penalty", &O::diversity_penalty, 0, 1e6, "F",
     "diverse beam search: penalty for a token that an earlier group chose at the same step", kSearch},
    {"length_penalty", &O::length_penalty, -100, 100, "F", "beam search: divide scores by length^F", kSearch},
    {"penalty_alpha", &O::penalty_alpha, 0, 1, "F",
     "contrastive search over the --top-k most probable tokens, with this degeneration penalty; 0 for off",
     kSearch},
    {"best_of", &O::best_of, 0, 1024, "N",
     "sample this many answers and keep those with the highest mean log-probability; 0 for off", kSearch},
    {"max_time", &O::max_time, 0, 1e9, "SECONDS", "stop generating after this time; 0 for no limit", kLimits},
    {"stop_below", &O::stop_below, 0, 1, "P", "stop after a token whose probability is below P", kLimits},
};

}  // namespace

std::span<const DecodingOption> decoding_options() { return kOptions; }

Result<bool> read_decoding_option(Decoding& target, const std::string& key, const Json& value) {
  MAKAR_TRY(const bool known, read_table(target, decoding_options(), key, value));
  if (known) return true;
  return read_sampler_option(target.sampler, key, value);
}

Status check_decoding(const Decoding& o) {
  MAKAR_RETURN_IF_ERROR(check_table(o, decoding_options()));
  MAKAR_RETURN_IF_ERROR(check_sampler(o.sampler));
  if (o.min_new_tokens > o.max_new_tokens)
    return error_at("`min_tokens`", "{} exceeds `max_tokens` ({})", o.min_new_tokens, o.max_new_tokens);
  if (o.beams > 1 && o.answers > o.beams)
    return error_at("`n`", "{} exceeds `beams` ({})", o.answers, o.beams);
  if (o.beams % o.beam_groups != 0)
    return error_at("`beam_groups`", "{} beams cannot be split into {} equal groups", o.beams, o.beam_groups);
  if (o.beam_groups == 1 && o.diversity_penalty > 0)
    return error_at("`diversity_penalty`", "needs groups of beams; set `beam_groups`");
  if (o.best_of > 0 && o.best_of < o.answers)
    return error_at("`best_of`", "{} is less than `n` ({})", o.best_of, o.answers);
  if (o.penalty_alpha > 0 && (o.sampler.top_k < 1 || o.sampler.top_k > 256))
    return error_at("`penalty_alpha`",
                    "ranks the `top_k` most probable tokens; set `top_k` to 1 to 256, such as 4");
  if (o.penalty_alpha > 0 && o.answers > 1)
    return error_at("`penalty_alpha`", "contrastive search is deterministic and gives one answer, not {}",
                    o.answers);
  const int methods = (o.beams > 1 ? 1 : 0) + (o.penalty_alpha > 0 ? 1 : 0) + (o.best_of > 0 ? 1 : 0);
  if (methods > 1) return error_at("options", "`beams`, `penalty_alpha` and `best_of` exclude each other");
  if (o.stop_below > 0 && (o.beams > 1 || o.penalty_alpha > 0))
    return error_at("`stop_below`", "does not apply to beam search or contrastive search");
  if (o.logprobs >= 0 && o.beams > 1)
    return error_at("`logprobs`", "beam search scores whole answers, not tokens");
  return Done{};
}

// Checks that images are given if the model or an image token of the prompt needs them, and only to a model
// that reads images. ImageInputs::expand_tokens compares their number with that of the image tokens.
static Status check_images(const ModelSpec& spec, const std::vector<int64_t>& prompt,
                           const ImageInputs* images) {
  if (!spec.reads_images()) {
    if (!images) return Done{};
    return error_of(Error::Kind::kUnsupported, "images", "a {} reads only text", spec.architecture);
  }
  if (spec.image_input) {
    if (!images && std::find(prompt.begin(), prompt.end(), spec.image_input->token) != prompt.end())
      return error_at("prompt", "has an image token ({}), but no image is given", spec.image_input->token);
    return Done{};
  }
  if (!prompt.empty())
    return error_of(Error::Kind::kUnsupported, "prompt", "a {} describes an image and reads no text",
                    spec.architecture);
  if (!images || images->pixels.dim(0) != 1)
    return error_at("images", "a {} describes one image; {}", spec.architecture,
                    images ? "several are given" : "none is given");
  return Done{};
}

Status fit_request(const Model& model, const ContextOptions& context, std::vector<int64_t>& prompt,
                   const Decoding& o, const ImageInputs* images) {
  const ModelSpec& spec = model.spec();
  if (!spec.decoder || spec.head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, "generate",
                    "a {} does not generate text; use a causal or sequence-to-sequence model",
                    spec.architecture);
  const bool seq2seq = spec.is_encoder_decoder(), captions = seq2seq && spec.reads_images();
  MAKAR_RETURN_IF_ERROR(check_images(spec, prompt, images));
  const int64_t vocab = (seq2seq ? *spec.encoder : *spec.decoder).embedding.vocab;
  if (prompt.empty() && !captions) return error_at("prompt", "is empty; at least one token is needed");
  for (size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || prompt[i] >= vocab)
      return error_at("prompt", "token {} at index {} is outside of the vocabulary of {}", prompt[i], i,
                      vocab);
  if (seq2seq && spec.decoder_start < 0)
    return error_at("config.json", "has no decoder_start_token_id, the first token of the decoder");
  if (context.policy == ContextPolicy::kSinks) return Done{};
  const int64_t size = context_size(spec, context);
  const bool truncate = context.policy == ContextPolicy::kTruncateLeft && !images;
  if (truncate) truncate_left(prompt, size, seq2seq ? 1 : o.max_new_tokens);
  // Sampled answers drop their oldest tokens as they grow; beams have to fit.
  if (truncate && !seq2seq && o.beams == 1 && o.penalty_alpha == 0) return Done{};
  const auto too_long = [&](int64_t length) { return size > 0 && length > size; };
  const int64_t length = static_cast<int64_t>(prompt.size());
  if (too_long(length))
    return error_of(Error::Kind::kLimit, "prompt",
                    "has {} tokens, the context holds {}; shorten the prompt or set `program.context_policy`",
                    length, size);
  if (too_long((seq2seq ? 1 : length) + o.max_new_tokens - 1))
    return error_of(Error::Kind::kLimit, "`max_tokens`",
                    "{} prompt tokens and {} new tokens exceed the context of {}; lower `max_tokens` or set "
                    "`program.context_policy`",
                    length, o.max_new_tokens, size);
  return Done{};
}

std::vector<int64_t> decoder_prompt(const Model& model, const std::vector<int64_t>& prompt) {
  return model.spec().is_encoder_decoder() ? std::vector<int64_t>{model.spec().decoder_start} : prompt;
}

std::shared_ptr<DecodingJob> make_job(const Model& model, const ContextOptions& context,
                                      const std::vector<int64_t>& prompt, const Decoding& o,
                                      std::vector<int64_t> stop, DecodingHooks hooks) {
  DecodingRequest shared;
  shared.prompt = decoder_prompt(model, prompt);
  shared.max_new_tokens = o.max_new_tokens, shared.answers = o.answers, shared.logprobs = o.logprobs;
  shared.sampler = o.sampler;
  if (!o.ignore_eos) shared.stop = std::move(stop);
  if (o.min_new_tokens > 0)
    shared.sampler.masked_until_min_length = shared.stop,
    shared.sampler.min_length = static_cast<int64_t>(shared.prompt.size()) + o.min_new_tokens;
  if (o.max_time > 0)
    shared.deadline =
        DecodingRequest::Clock::now() + std::chrono::duration_cast<DecodingRequest::Clock::duration>(
                                            std::chrono::duration<double>(o.max_time));
  std::shared_ptr<DecodingJob> job;
  if (o.beams > 1) {
    BeamRequest r{shared};
    r.beams = o.beams, r.groups = o.beam_groups, r.diversity_penalty = o.diversity_penalty;
    r.length_penalty = o.length_penalty, r.early_stop = o.early_stop;
    job = std::make_shared<BeamJob>(std::move(r));
  } else if (o.penalty_alpha > 0) {
    ContrastiveRequest r{shared};
    r.alpha = o.penalty_alpha, r.candidates = o.sampler.top_k;
    job = std::make_shared<ContrastiveJob>(std::move(r));
  } else {
    SampleRequest r{shared};
    if (o.best_of > 0) r.answers = o.best_of, r.logprobs = std::max<int64_t>(o.logprobs, 0);
    r.on_token = std::move(hooks.on_token), r.constraint = std::move(hooks.constraint);
    // A draft model reads tokens, not images.
    if (!hooks.images) r.drafter = std::move(hooks.drafter);
    r.draft_tokens = hooks.draft_tokens;
    r.stop_below = o.stop_below;
    if (context.policy == ContextPolicy::kTruncateLeft && !model.spec().is_encoder_decoder() && !hooks.images)
      r.window = context_size(model.spec(), context);
    job = std::make_shared<SampleJob>(std::move(r));
  }
  job->images = std::move(hooks.images);
  if (model.spec().is_encoder_decoder()) job->source = prompt;
  // One placeholder per row of the encoder, so that rows are counted; the encoder reads the images.
  if (model.spec().is_encoder_decoder() && job->images)
    job->source.assign(static_cast<size_t>(model.spec().image_rows()), 0);
  return job;
}

}  // namespace makar
