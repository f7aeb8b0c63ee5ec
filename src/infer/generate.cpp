#include "infer/generate.h"

#include <algorithm>

#include "infer/sampler_options.h"

namespace makar {
namespace {

Status check_ids(const std::vector<int64_t>& ids, int64_t vocab, const char* what) {
  if (ids.empty()) return error_at(what, "is empty; at least one token id is needed");
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab)
      return error_at(what, "token {} at place {} is outside of the vocabulary of {}", ids[i], i, vocab);
  return Done{};
}

// A batch of one sequence that continues after `past` cached tokens.
Batch continuation(const std::vector<int64_t>& ids, int64_t begin, int64_t end, int64_t past) {
  Batch batch;
  batch.add({ids.begin() + begin, ids.begin() + end}, past);
  batch.sequences[0].past = past;
  return batch;
}

}  // namespace

Result<std::vector<int64_t>> generate(const Model& model, ThreadPool& pool,
                                      const std::vector<int64_t>& prompt, const GenerateOptions& options) {
  const ModelSpec& spec = model.spec();
  if (!spec.decoder || spec.head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, "generate",
                    "a {} does not write text; a causal or sequence-to-sequence model does",
                    spec.architecture);
  const bool both = spec.encoder.has_value();
  const StackSpec& first = both ? *spec.encoder : *spec.decoder;
  MAKAR_CHECK_OK(check_sampler(options.sampler));
  MAKAR_CHECK_OK(check_ids(prompt, first.embedding.vocab, "prompt"));
  const auto too_long = [&](int64_t length) { return spec.max_positions > 0 && length > spec.max_positions; };
  const int64_t length = static_cast<int64_t>(prompt.size());
  const int64_t needed = (both ? 1 : length) + options.max_new_tokens - 1;
  if (too_long(needed) || too_long(length))
    return error_of(
        Error::Kind::kLimit, "generate",
        "{} prompt and {} new tokens are more than the model's {} positions; ask for fewer with -n", length,
        options.max_new_tokens, spec.max_positions);
  if (both && spec.decoder_start < 0)
    return error_at("config.json", "has no decoder_start_token_id to begin with");

  Context ctx{pool};
  KvCache cache(*spec.decoder, 1);
  ForwardContext f{ctx, &cache};
  Tensor encoded;
  Batch source;
  if (both) {
    source.add(prompt);
    encoded = model.encode(f, source);
  }
  std::vector<int64_t> ids = both ? std::vector<int64_t>{spec.decoder_start} : prompt;
  const std::vector<int64_t>& stops = options.stop.empty() ? spec.eos : options.stop;
  SamplerOptions sampling = options.sampler;
  sampling.prompt_tokens = static_cast<int64_t>(ids.size());
  Sampler sampler(std::move(sampling));
  int64_t past = 0;
  for (int64_t made = 0; made < options.max_new_tokens; ++made) {
    Tensor hidden;
    while (past < static_cast<int64_t>(ids.size())) {
      const int64_t end =
          std::min<int64_t>(past + std::max<int64_t>(options.chunk, 1), static_cast<int64_t>(ids.size()));
      hidden = model.decode(f, continuation(ids, past, end, past), encoded, both ? &source : nullptr);
      past = end;
    }
    const Tensor logits = model.lm_logits(ctx, hidden.slice(hidden.dim(0) - 1, hidden.dim(0)));
    MAKAR_TRY(const int64_t next, sampler.next(logits.span(), ids, static_cast<uint64_t>(made)));
    ids.push_back(next);
    if (options.on_token) options.on_token(next);
    if (std::find(stops.begin(), stops.end(), next) != stops.end()) break;
  }
  return ids;
}

}  // namespace makar
