// The computations of the loop: gradients of a step, validation.
#include <chrono>
#include <cmath>

#include "ops/elementwise.h"
#include "train/loop.h"

namespace makar {
namespace {

// Approximate FLOPs of a forward and backward pass: matrix products and attention.
double training_flops(const Model& model, const MicroBatch& batch) {
  const ModelSpec& spec = model.spec();
  // FLOPs per token and weight: 2 forward, 2 for the input's gradient, 2 for the weight's gradient if it is
  // trained.
  double flops_per_token = 0;
  for (const auto& p : model.parameters().all()) {
    if (p->shape.rank() < 2 || p->buffer) continue;
    const bool output = p->name.ends_with(".embed.tokens.weight") && spec.head.tied &&
                        (spec.head.kind == HeadKind::kCausalLm || spec.head.kind == HeadKind::kMaskedLm ||
                         spec.head.kind == HeadKind::kBidirectionalLm);
    if (p->name.find(".embed.") == std::string::npos || output)
      flops_per_token += static_cast<double>(p->shape.count()) * (p->trainable ? 6 : 4) *
                         (output && spec.head.kind == HeadKind::kBidirectionalLm ? 2 : 1);
  }
  if (spec.encoder && spec.decoder) flops_per_token /= 2;  // each token passes through one of the two stacks
  double attention = 0;  // scores and their product with the values: 4 FLOPs forward, 8 backward
  for (const BlockSpec& b : spec.main().blocks)
    if (!b.recurrent && !b.alignment)
      attention += 12.0 * static_cast<double>(b.attention.heads * b.attention.head_dim) *
                   batch.squared_lengths * (b.attention.causal ? 0.5 : 1.0);
  return flops_per_token * static_cast<double>(batch.tokens) + attention;
}

}  // namespace

Result<Metrics> validate(Task& task, Device& device, DType activations) {
  MAKAR_TRY(Metrics out, task.metrics(device));
  double sum = 0, weight = 0;
  for (uint64_t i = 0; i < task.validation_batches(); ++i) {
    MAKAR_TRY(const MicroBatch b, task.validation_batch(i));
    if (b.weight == 0) continue;
    Context ctx{device};
    ctx.activations = activations;
    ForwardContext f{ctx};
    MAKAR_TRY(const Tensor loss, b.loss(f));
    sum += loss.host().f32()[0] * b.weight, weight += b.weight;
  }
  if (weight > 0) out["loss"] = sum / weight;
  return out;
}

Result<StepLosses> backward_step(const Loop& loop, std::span<const MicroBatch> batches, uint64_t first,
                                 std::span<UploadedIndices> uploaded) {
  const LoopSettings& s = loop.settings;
  double weight = 0;
  for (const MicroBatch& b : batches) weight += b.weight;
  loop.models.clear_gradients();
  const RoundedWeights rounded(loop.models, loop.round);
  StepLosses out;
  for (size_t i = 0; i < batches.size(); ++i) {
    out.losses.emplace_back();
    if (batches[i].weight == 0) continue;
    Tape tape(loop.device);
    loop.models.watch(tape);
    Context ctx{loop.device, &tape, !s.no_dropout, static_cast<uint64_t>(s.seed), first + i};
    ctx.activations = activations_of(s);
    ctx.uploaded = uploaded;
    ForwardContext f{ctx, nullptr, nullptr, s.gradient_checkpointing};
    MAKAR_TRY(Tensor loss, batches[i].loss(f));
    out.losses.back() = loss;
    if (batches.size() > 1) loss = ops::scale(ctx, loss, static_cast<float>(batches[i].weight / weight));
    tape.backward(loss);
    loop.models.collect(tape);
    out.random |= ctx.stream > 0;
  }
  return out;
}

Result<StepInfo> step_gradients(const Loop& loop, uint64_t step, RecordedSteps* recorded) {
  const auto start = std::chrono::steady_clock::now();
  MAKAR_RETURN_IF_ERROR(loop.task.prepare_step(step, loop.device));
  const std::chrono::duration<double> prepare_time = std::chrono::steady_clock::now() - start;
  std::vector<MicroBatch> batches;
  double weight = 0;
  const auto micro_batches = static_cast<uint64_t>(loop.settings.gradient_accumulation_steps);
  for (uint64_t i = 0; i < micro_batches; ++i) {
    MAKAR_TRY(MicroBatch b, loop.task.train_batch(step * micro_batches + i));
    weight += b.weight;
    batches.push_back(std::move(b));
  }
  if (!(weight > 0)) return error_at("data", "the batches of step {} have no targets", step + 1);
  StepInfo info;
  info.prepare_seconds = prepare_time.count();
  const uint64_t first = step * micro_batches;
  MAKAR_TRY(const StepLosses computed,
            recorded ? recorded->backward(loop, batches, first) : backward_step(loop, batches, first));
  info.recorded = recorded && recorded->is_recorded();
  for (size_t i = 0; i < batches.size(); ++i) {
    if (batches[i].weight == 0) continue;
    info.tokens += batches[i].tokens;
    for (const TrainedModel& m : loop.models.all()) info.flops += training_flops(*m.model, batches[i]);
  }
  // Last, because reading a loss waits for the device.
  for (size_t i = 0; i < batches.size(); ++i)
    if (batches[i].weight > 0) info.loss += computed.losses[i].host().f32()[0] * (batches[i].weight / weight);
  info.norm = loop.models.gradient_norm(loop.device);
  info.applied = std::isfinite(info.loss) && std::isfinite(info.norm);
  info.tokens_are_targets = loop.task.tokens_are_targets();
  info.metrics = loop.task.step_metrics();
  return info;
}

}  // namespace makar
