#include "train/contrastive.h"

#include <algorithm>
#include <cmath>

#include "data/schema.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {

Status read_triplets(const DataPath& path, const Tokenizer& tokenizer, int64_t max_length,
                     ValidationSplit& split, TripletData& out) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  EncodeOptions o;
  o.add_special = true, o.offsets = false, o.truncation = Truncation{static_cast<size_t>(max_length)};
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    Triplet t;
    const auto encode = [&](const char* name, std::vector<int64_t>& into) -> Status {
      const Json* text = field(record.value, {name});
      if (!text) return Done{};
      if (!text->is_string()) return error_at("", "'{}' must be a text", name);
      MAKAR_TRY(const Encoding e, tokenizer.encode(text->get_ref<const std::string&>(), o));
      into.assign(e.ids.begin(), e.ids.end());
      return Done{};
    };
    Status status = encode("anchor", t.anchor);
    if (status.ok()) status = encode("positive", t.positive);
    if (status.ok()) status = encode("negative", t.negative);
    if (!status.ok() || t.anchor.empty() || t.positive.empty()) {
      if (!status.ok())
        reader.bad().add(record.place(), status.error().message);
      else
        reader.bad().add_once(record.place(), unexpected_schema_message(record.value, {Schema::kTriplet}));
      continue;
    }
    const bool held_out = split.selects(record.value["anchor"].get_ref<const std::string&>());
    MAKAR_RETURN_IF_ERROR((held_out ? out.validation : out.train).add(t));
  }
  out.bad = reader.bad();
  return Done{};
}

Result<TripletData> open_triplets(const DatasetOptions& options, const Tokenizer& tokenizer,
                                  int64_t max_length, Json& identity) {
  return read_examples<TripletData>(options, "anchors with positives", identity,
                                    [&](const DatasetSpec& spec, ValidationSplit& split, TripletData& out) {
                                      return read_triplets(spec.data(), tokenizer, max_length, split, out);
                                    });
}

Tensor sentence_embeddings(ForwardContext& f, const Model& model, const Batch& batch) {
  Inputs inputs;
  inputs.source = batch;
  Context& ctx = f.ops;
  std::vector<int64_t> starts = {0};
  for (const Sequence& s : batch.sequences) starts.push_back(s.start + s.length);
  // The sum has the same direction as the mean, and RMS normalisation scales it to length sqrt(width).
  const Tensor sums = ops::segment_sum(ctx, model.hidden(f, inputs), starts);
  const int64_t width = sums.dim(1);
  const Tensor unit = ops::rms_norm(ctx, sums, Tensor::full({width}, 1.0f).to(ctx.device.memory()), 1e-12f);
  return ops::scale(ctx, unit, 1.0f / std::sqrt(static_cast<float>(width)));
}

Status ContrastiveTask::batches(std::span<const size_t> which, bool validation, Batch& anchors,
                                Batch& others) const {
  const bool types = model_.spec().encoder && model_.spec().encoder->embedding.types > 0;
  std::vector<std::vector<int64_t>> negatives;
  for (const size_t w : which) {
    MAKAR_TRY(Triplet t, (validation ? data_.validation : data_.train).read(w));
    anchors.add(t.anchor), others.add(t.positive);
    if (!t.negative.empty()) negatives.push_back(std::move(t.negative));
  }
  for (const auto& ids : negatives) others.add(ids);
  if (types) anchors.types.assign(anchors.tokens.size(), 0), others.types.assign(others.tokens.size(), 0);
  return Done{};
}

Tensor ContrastiveTask::similarities(ForwardContext& f, const Batch& anchors, const Batch& others) const {
  const Tensor a = sentence_embeddings(f, model_, anchors), b = sentence_embeddings(f, model_, others);
  return ops::scale(f.ops, ops::matmul(f.ops, a, b, true), 1.0f / temperature_);  // [anchors, others]
}

Result<MicroBatch> ContrastiveTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  Batch anchors, others;
  MAKAR_RETURN_IF_ERROR(batches(which, validation, anchors, others));
  MicroBatch out;
  out.tokens = anchors.rows() + others.rows(),
  out.squared_lengths = squared_lengths(anchors) + squared_lengths(others);
  out.weight = static_cast<double>(which.size());
  out.loss = [this, anchors = std::move(anchors),
              others = std::move(others)](ForwardContext& f) -> Result<Tensor> {
    std::vector<int64_t> positives;
    for (size_t i = 0; i < anchors.sequences.size(); ++i) positives.push_back(static_cast<int64_t>(i));
    return ops::cross_entropy(f.ops, similarities(f, anchors, others), positives);
  };
  return out;
}

Result<Metrics> ContrastiveTask::metrics(Device& device) {
  double correct = 0;
  for (size_t at = 0; at < held_out_; at += batch_) {
    std::vector<size_t> which;
    for (size_t i = at; i < std::min(at + batch_, held_out_); ++i) which.push_back(i);
    Batch anchors, others;
    MAKAR_RETURN_IF_ERROR(batches(which, true, anchors, others));
    Context ctx{device};
    ForwardContext f{ctx};
    const Tensor s = similarities(f, anchors, others).host();
    for (int64_t i = 0; i < s.dim(0); ++i) {
      const float* row = s.f32() + i * s.dim(1);
      correct += std::max_element(row, row + s.dim(1)) - row == i;
    }
  }
  return Metrics{{"accuracy", held_out_ > 0 ? correct / static_cast<double>(held_out_) : 0}};
}

}  // namespace makar
