#include "train/sampled_answers.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "data/permutation.h"
#include "ops/softmax.h"

namespace makar {
namespace {

constexpr size_t kPromptsAtOnce = 64;
constexpr size_t kValidationPrompts = 64;  // sampling their answers is the cost of a validation

RolloutOptions rollout_options(const SampledAnswersOptions& o, uint64_t step) {
  RolloutOptions out;
  out.max_new_tokens = o.max_new_tokens, out.stop = o.stop;
  out.sampler.temperature = o.temperature, out.seed = o.seed, out.step = step;
  return out;
}

// The student's prompt, then the answer.
MaskedTokens conversation_of(const std::vector<int64_t>& prompt, const Rollout& rollout) {
  MaskedTokens out{prompt, std::vector<uint8_t>(prompt.size(), 0)};
  out.ids.insert(out.ids.end(), rollout.tokens.begin() + rollout.prompt_tokens, rollout.tokens.end());
  out.loss_mask.resize(out.ids.size(), 1);
  return out;
}

Metrics answer_metrics(const std::vector<Rollout>& rollouts) {
  double tokens = 0, stopped = 0;
  for (const Rollout& r : rollouts) {
    tokens += static_cast<double>(r.log_probabilities.size());
    stopped += r.finish == Finish::kStop ? 1 : 0;
  }
  const auto n = static_cast<double>(std::max<size_t>(1, rollouts.size()));
  return {{"sampled", static_cast<double>(rollouts.size())},
          {"length", tokens / n},
          {"truncated", rollouts.empty() ? 0 : 1 - stopped / n}};
}

// The token ids of a prompt, with the options' system message instead of the prompt's.
Result<std::vector<int64_t>> prompt_ids(const AnswerSampling& sampling, const PolicyPrompt& prompt) {
  if (sampling.system.empty()) return prompt.ids;
  MAKAR_TRY(const Json turns, parse_json(prompt.turns, "prompt"));
  return sampling.encoder->encode_prompt(with_system(turns, sampling.system));
}

Status sample_split(const AnswerSampling& sampling, const SpoolOf<PolicyPrompt>& prompts, bool validation,
                    size_t done, size_t total, ConversationWriter& out) {
  for (size_t at = 0; at < prompts.size(); at += kPromptsAtOnce) {
    std::vector<PolicyPrompt> part;
    std::vector<std::vector<int64_t>> ids;
    for (size_t i = at; i < std::min(at + kPromptsAtOnce, prompts.size()); ++i) {
      MAKAR_TRY(PolicyPrompt p, prompts.read(i));
      MAKAR_TRY(ids.emplace_back(), prompt_ids(sampling, p));
      part.push_back(std::move(p));
    }
    // Every batch has its own random streams, different in training and validation.
    RolloutOptions options = rollout_options(sampling.options, 2 * at + (validation ? 1 : 0));
    options.answers = sampling.options.answers;
    MAKAR_TRY(const auto rollouts, roll_out(sampling.model, sampling.device, ids, options));
    for (const Rollout& r : rollouts)
      MAKAR_RETURN_IF_ERROR(out.add(conversation_of(part[r.prompt].ids, r), validation));
    sampling.progress(done + at + part.size(), total);
  }
  return Done{};
}

}  // namespace

Result<ConversationStores> sample_conversations(const AnswerSampling& sampling, const PolicyPrompts& prompts,
                                                Json& identity) {
  MAKAR_RETURN_IF_ERROR(make_folder(sampling.folder));
  const std::string marker = sampling.folder + "/sampled.json";
  const Json key = {{"prompts", identity.value("data", "")},
                    {"max_new_tokens", sampling.options.max_new_tokens},
                    {"answers", sampling.options.answers},
                    {"temperature", sampling.options.temperature},
                    {"seed", sampling.options.seed},
                    {"system", sampling.system},
                    {"key", sampling.key}};
  const auto stored_key = is_file(marker) ? read_json(marker) : Result<Json>(Json());
  if (!stored_key.ok() || *stored_key != key) {
    std::error_code ignored;
    std::filesystem::remove(marker, ignored);
    ConversationWriter writer(sampling.folder, sampling.model.spec().vocab);
    const size_t train = prompts.train.size(), total = train + prompts.validation.size();
    MAKAR_RETURN_IF_ERROR(sample_split(sampling, prompts.train, false, 0, total, writer));
    MAKAR_RETURN_IF_ERROR(sample_split(sampling, prompts.validation, true, train, total, writer));
    MAKAR_RETURN_IF_ERROR(writer.finish());
    MAKAR_RETURN_IF_ERROR(write_file(marker, key.dump() + "\n"));
  }
  ConversationStores out;
  MAKAR_TRY(out.train, TokenStore::open(sampling.folder, "train"));
  MAKAR_TRY(out.validation, TokenStore::open(sampling.folder, "validation"));
  identity["data"] = hash_of(out);
  return out;
}

StudentAnswersTask::StudentAnswersTask(Model& student, PolicyPrompts prompts, std::unique_ptr<Task> data,
                                       double share, int64_t micro_batch, int64_t accumulate,
                                       const SampledAnswersOptions& options)
    : student_(student),
      prompts_(std::move(prompts)),
      data_(std::move(data)),
      share_(share),
      micro_batch_(micro_batch),
      accumulate_(accumulate),
      o_(options) {
  check(data_ || share_ >= 1, "steps that do not sample need data");
}

bool StudentAnswersTask::samples(uint64_t step) const {
  // An index beyond those that tasks draw masks with.
  return !data_ || Rng(o_.seed, Purpose::kMask, step).uniform_double(uint64_t{1} << 40) < share_;
}

Status StudentAnswersTask::prepare_step(uint64_t step, Device& device) {
  rollouts_.clear();
  if (!samples(step)) return data_->prepare_step(step, device);
  const auto count = static_cast<uint64_t>(micro_batch_ * accumulate_);
  const uint64_t size = prompts_.train.size();
  std::vector<std::vector<int64_t>> ids;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = step * count + i;
    MAKAR_TRY(PolicyPrompt p, prompts_.train.read(Permutation(size, o_.seed, at / size)(at % size)));
    ids.push_back(std::move(p.ids));
  }
  MAKAR_TRY(rollouts_, roll_out(student_, device, ids, rollout_options(o_, step)));
  return Done{};
}

// The answers as a batch of next-token prediction.
MicroBatch StudentAnswersTask::batch_of(std::span<const Rollout> rollouts) const {
  const RolloutBatch part = batch_rollouts(rollouts);
  std::vector<int64_t> targets(part.mask.size(), ops::kIgnore);
  for (const Sequence& s : part.batch.sequences)
    for (int64_t i = s.start + 1; i < s.start + s.length; ++i)
      if (part.mask[static_cast<size_t>(i)] != 0)
        targets[static_cast<size_t>(i - 1)] = part.batch.tokens[static_cast<size_t>(i)];
  return next_token_batch(student_, part.batch, std::move(targets), 0);
}

Result<MicroBatch> StudentAnswersTask::train_batch(uint64_t index) {
  if (rollouts_.empty()) return data_->train_batch(index);
  const auto first =
      static_cast<size_t>(index % static_cast<uint64_t>(accumulate_)) * static_cast<size_t>(micro_batch_);
  return batch_of(std::span(rollouts_).subspan(first, static_cast<size_t>(micro_batch_)));
}

uint64_t StudentAnswersTask::batches_per_epoch() const {
  const auto batch = static_cast<size_t>(micro_batch_);
  return (prompts_.train.size() + batch - 1) / batch;
}

uint64_t StudentAnswersTask::validation_batches() const {
  if (data_) return data_->validation_batches();
  const auto batch = static_cast<size_t>(micro_batch_);
  return (std::min(prompts_.validation.size(), kValidationPrompts) + batch - 1) / batch;
}

Result<MicroBatch> StudentAnswersTask::validation_batch(uint64_t index) {
  if (data_) return data_->validation_batch(index);
  const auto batch = static_cast<size_t>(micro_batch_), at = static_cast<size_t>(index) * batch;
  if (at >= held_out_.size()) return MicroBatch{};
  MicroBatch out = batch_of(std::span(held_out_).subspan(at, std::min(batch, held_out_.size() - at)));
  out.weight = 0;  // the student's loss on its own answers says nothing about the teacher
  return out;
}

Result<Metrics> StudentAnswersTask::metrics(Device& device) {
  if (data_) return data_->metrics(device);
  held_out_.clear();
  if (prompts_.validation.empty()) return Metrics{};
  std::vector<std::vector<int64_t>> ids;
  for (size_t i = 0; i < std::min(prompts_.validation.size(), kValidationPrompts); ++i) {
    MAKAR_TRY(PolicyPrompt p, prompts_.validation.read(i));
    ids.push_back(std::move(p.ids));
  }
  MAKAR_TRY(held_out_, roll_out(student_, device, ids, rollout_options(o_, kValidationDraw)));
  return answer_metrics(held_out_);
}

Metrics StudentAnswersTask::step_metrics() const { return answer_metrics(rollouts_); }

}  // namespace makar
