#include "train/fixed_batch.h"

#include "formats/safetensors.h"

namespace makar {

Result<FixedBatchTask> FixedBatchTask::open(Model& model, const std::string& path, float smoothing) {
  MAKAR_TRY(const auto file, Safetensors::open(path));
  std::map<std::string, Tensor> in;
  Labels labels;
  for (const std::string& name : file->names()) {
    if (!name.starts_with("in.")) continue;
    const std::string key = name.substr(3);
    const bool label =
        key == "labels" || key == "next_sentence_label" || key == "start_positions" || key == "end_positions";
    MAKAR_TRY((label ? labels : in)[key], file->tensor(name));
  }
  // Without labels, a causal model is trained on its own input.
  const bool causal = model.spec().head.kind == HeadKind::kCausalLm && !model.spec().is_encoder_decoder();
  if (labels.empty() && in.contains("input_ids") && (causal || !model.spec().encoder))
    labels["labels"] = in["input_ids"];
  MAKAR_TRY(Inputs inputs, make_inputs(model.spec(), in, path));
  return FixedBatchTask(model, std::move(inputs), std::move(labels), smoothing);
}

Result<MicroBatch> FixedBatchTask::train_batch(uint64_t) {
  const Batch& batch = inputs_.target.rows() > 0 ? inputs_.target : inputs_.source;
  MicroBatch out;
  out.weight = 1, out.tokens = batch.rows(), out.squared_lengths = squared_lengths(batch);
  out.loss = [this](ForwardContext& f) { return head_loss(f, *model_, inputs_, labels_, {smoothing_}); };
  return out;
}

}  // namespace makar
