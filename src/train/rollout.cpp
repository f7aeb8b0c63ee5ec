#include "train/rollout.h"

#include <algorithm>

#include "base/rng.h"
#include "infer/engine.h"

namespace makar {
namespace {

// Packs the layers that are not packed yet, and unpacks them in the destructor: training changes their
// weights.
class PackedForSampling {
 public:
  PackedForSampling(Model& model, Device& device, DType activations)
      : model_(model), activations_(model.activations()) {
    model.set_activations(activations);
    for (const std::vector<Linear*>& group : model.packed_groups()) {
      if (std::ranges::any_of(group, &Linear::packed)) continue;
      Linear::pack_together(device, group, activations);
      packed_.insert(packed_.end(), group.begin(), group.end());
    }
  }
  ~PackedForSampling() {
    for (Linear* linear : packed_) linear->unpack();
    model_.set_activations(activations_);
  }
  PackedForSampling(const PackedForSampling&) = delete;
  PackedForSampling& operator=(const PackedForSampling&) = delete;

 private:
  Model& model_;
  DType activations_;  // of the model before sampling
  std::vector<Linear*> packed_;
};

uint64_t stream_of(const RolloutOptions& o, size_t prompt) {
  const auto bits = Rng(o.seed, Purpose::kSample, o.step).bits(prompt);
  return uint64_t{bits[0]} << 32 | bits[1];
}

}  // namespace

Result<std::vector<Rollout>> roll_out(Model& model, Device& device,
                                      std::span<const std::vector<int64_t>> prompts,
                                      const RolloutOptions& o) {
  const ModelSpec& spec = model.spec();
  if (!spec.decoder || spec.encoder)
    return error_of(Error::Kind::kUnsupported, "rollout", "needs a decoder-only language model, this is a {}",
                    spec.architecture);
  Decoding decoding;
  decoding.max_new_tokens = o.max_new_tokens, decoding.answers = o.answers, decoding.logprobs = 0;
  decoding.sampler = o.sampler;
  MAKAR_RETURN_IF_ERROR(check_decoding(decoding));
  model.parameters().to(device.memory());
  const PackedForSampling packed(model, device, o.activations);
  EngineOptions engine_options;  // a cache of the activations' type and the whole context, as in training
  engine_options.max_pages = o.max_pages;
  Engine engine(model, device, engine_options);
  std::vector<std::shared_ptr<DecodingJob>> jobs;
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::vector<int64_t> prompt = prompts[i];
    MAKAR_RETURN_IF_ERROR(fit_request(model, engine_options.context, prompt, decoding));
    decoding.sampler.seed = stream_of(o, i);
    jobs.push_back(
        make_job(model, engine_options.context, prompt, decoding, o.stop.empty() ? spec.eos : o.stop));
    engine.submit(jobs.back());
  }
  engine.run();
  std::vector<Rollout> out;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i]->error) return *jobs[i]->error;
    for (const Answer& answer : jobs[i]->answers()) {
      Rollout r{i, prompts[i], static_cast<int64_t>(prompts[i].size()), {}, answer.finish};
      for (const auto& token : answer.tokens) {
        r.tokens.push_back(token.id);
        r.log_probabilities.push_back(token.logprobs.chosen);
      }
      out.push_back(std::move(r));
    }
  }
  return out;
}

RolloutBatch batch_rollouts(std::span<const Rollout> rollouts) {
  RolloutBatch out;
  for (const Rollout& r : rollouts) {
    out.batch.add(r.tokens);
    for (size_t i = 0; i < r.tokens.size(); ++i)
      out.mask.push_back(static_cast<int64_t>(i) < r.prompt_tokens ? 0.0f : 1.0f);
  }
  return out;
}

}  // namespace makar
