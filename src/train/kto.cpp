#include "train/kto.h"

#include <algorithm>

#include "base/sha256.h"
#include "data/schema.h"
#include "ops/shape.h"

namespace makar {
namespace {

// Stores the ratings of one split. Each rating also gets the answer of the previous rating; the first gets
// the answer of the last.
class RatingWriter {
 public:
  RatingWriter(const ConversationEncoder& encoder, SpoolOf<RatedAnswer>& to) : encoder_(encoder), to_(to) {}
  Status add(const LabelledRecord& record) {
    MAKAR_RETURN_IF_ERROR(encode_answer(encoder_, record.prompt, record.answer));
    if (!first_)
      first_ = record;
    else
      MAKAR_RETURN_IF_ERROR(store(record, last_));
    last_ = record.answer;
    return Done{};
  }
  Status finish() { return first_ ? store(*first_, last_) : Status(Done{}); }

 private:
  Status store(const LabelledRecord& record, const Json& other) {
    MAKAR_TRY(MaskedTokens own, encode_answer(encoder_, record.prompt, record.answer));
    // If truncation leaves no token of the other answer, the record's own answer is used.
    auto mismatched = encode_answer(encoder_, record.prompt, other);
    const MaskedTokens& another = mismatched.ok() ? *mismatched : own;
    return to_.add({own.ids, another.ids, own.loss_mask, another.loss_mask, record.good});
  }
  const ConversationEncoder& encoder_;
  SpoolOf<RatedAnswer>& to_;
  std::optional<LabelledRecord> first_;
  Json last_;
};

Result<std::vector<LabelledRecord>> ratings_of(const Json& record) {
  if (!field(record, {"chosen"}) || !field(record, {"rejected"})) {
    MAKAR_TRY(LabelledRecord rated, to_labelled(record));
    return std::vector<LabelledRecord>{std::move(rated)};
  }
  MAKAR_TRY(PreferenceRecord pair, to_preference(record));
  return std::vector<LabelledRecord>{{pair.prompt, pair.chosen, true}, {pair.prompt, pair.rejected, false}};
}

Status read_ratings(const DataPath& path, const ConversationEncoder& encoder, ValidationSplit& split,
                    Ratings& out) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  RatingWriter train(encoder, out.train), validation(encoder, out.validation);
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const auto ratings = ratings_of(record.value);
    if (!ratings.ok()) {
      if (!field(record.value, {"label", "kto_tag"}))
        reader.bad().add_once(
            record.place(),
            unexpected_schema_message(record.value, {Schema::kLabelledCompletion, Schema::kPreference}));
      else
        reader.bad().add(record.place(), ratings.error().message);
      continue;
    }
    const bool held_out = split.selects(dump(ratings->front().prompt));
    for (const LabelledRecord& rating : *ratings)
      if (const Status added = (held_out ? validation : train).add(rating); !added.ok())
        reader.bad().add(record.place(), added.error().message);
  }
  out.bad = reader.bad();
  MAKAR_RETURN_IF_ERROR(train.finish());
  return validation.finish();
}

}  // namespace

Result<Ratings> open_ratings(const DatasetOptions& options, const ConversationEncoder& encoder,
                             Json& identity) {
  return read_examples<Ratings>(
      options, "rated answers", identity,
      [&](const DatasetSpec& spec, ValidationSplit& split, Ratings& out) -> Status {
        const auto type = spec.type.empty() ? Schema::kLabelledCompletion : schema_named(spec.type);
        if (type != Schema::kLabelledCompletion && type != Schema::kPreference)
          return error_at("datasets",
                          "type '{}' has no rated answers; expected labelled-completion or preference",
                          spec.type);
        return read_ratings(spec.data(), encoder, split, out);
      });
}

Metrics KtoTask::Sums::metrics() const {
  const double good_mean = good_reward / std::max(1.0, good), bad_mean = bad_reward / std::max(1.0, bad);
  return {{"rewards/chosen", good_mean},
          {"rewards/rejected", bad_mean},
          {"rewards/margins", good_mean - bad_mean},
          {"kl", kl / std::max(1.0, batches)}};
}

KtoTask::KtoTask(Model& model, Ratings data, const KtoOptions& options, int64_t batch, uint64_t seed)
    : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
      model_(model),
      data_(std::move(data)),
      o_(options) {}

Status KtoTask::score_reference(const Reference& reference, Device& device, Json& identity) {
  Sha256 sum;
  for (const bool validation : {false, true}) {
    Scores& out = validation ? validation_reference_ : train_reference_;
    const size_t count = validation ? held_out_ : count_;
    out.assign(count, {});
    for (size_t at = 0; at < count; at += batch_) {
      std::vector<size_t> which;
      for (size_t i = at; i < std::min(at + batch_, count); ++i) which.push_back(i);
      MAKAR_TRY(const Examples examples, read(which, validation));
      Context ctx{device};
      const Tensor sums = sequence_sums(ctx, reference.log_probabilities(device, examples.answers.batch,
                                                                         examples.answers.mask))
                              .host();
      for (size_t i = 0; i < which.size(); ++i) out[at + i] = {sums.f32()[i], sums.f32()[which.size() + i]};
    }
    sum.add(std::as_bytes(std::span(out)));
  }
  identity["reference"] = sum.hex();
  return Done{};
}

Status KtoTask::prepare_step(uint64_t, Device&) {
  step_ = {};
  return Done{};
}

Result<KtoTask::Examples> KtoTask::read(std::span<const size_t> which, bool validation) const {
  const Scores& reference = validation ? validation_reference_ : train_reference_;
  check(reference.size() == (validation ? held_out_ : count_),
        "score_reference() must be called before training");
  Examples out;
  std::vector<RatedAnswer> rated;
  for (const size_t w : which) {
    MAKAR_TRY(rated.emplace_back(), (validation ? data_.validation : data_.train).read(w));
    out.good.push_back(rated.back().good);
    out.reference.push_back(reference[w][0]), out.other_reference.push_back(reference[w][1]);
  }
  for (const RatedAnswer& a : rated) out.answers.add(a.ids, a.loss_mask);
  for (const RatedAnswer& a : rated) out.answers.add(a.other_ids, a.other_mask);
  return out;
}

Tensor KtoTask::loss(ForwardContext& f, const Examples& e, Sums& sums) const {
  Context& ctx = f.ops;
  const auto n = static_cast<int64_t>(e.good.size());
  const auto halves =
      ops::split(ctx, sequence_log_probabilities(f, model_, e.answers.batch, e.answers.mask), {n, n}, 0);
  const Tensor own = halves[0].host(), other = halves[1].host();
  double kl = 0;
  for (size_t i = 0; i < e.good.size(); ++i) {
    kl += (static_cast<double>(other.f32()[i]) - e.other_reference[i]) / static_cast<double>(n);
    const double reward = o_.beta * (static_cast<double>(own.f32()[i]) - e.reference[i]);
    (e.good[i] ? sums.good : sums.bad) += 1, (e.good[i] ? sums.good_reward : sums.bad_reward) += reward;
  }
  kl = std::max(0.0, kl);
  sums.kl += kl, sums.batches += 1;
  const Tensor reference = Tensor::from({n}, std::span<const float>(e.reference)).to(ctx.device.memory());
  return kto_loss(ctx, {halves[0], reference, e.good, o_.good_weight, o_.bad_weight}, o_.beta,
                  static_cast<float>(kl));
}

Result<MicroBatch> KtoTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  MAKAR_TRY(Examples examples, read(which, validation));
  MicroBatch out;
  out.weight = static_cast<double>(which.size());
  out.tokens = examples.answers.batch.rows(), out.squared_lengths = squared_lengths(examples.answers.batch);
  out.loss = [this, validation, examples = std::move(examples)](ForwardContext& f) -> Result<Tensor> {
    Sums unused;
    return loss(f, examples, validation ? unused : step_);
  };
  return out;
}

Result<Metrics> KtoTask::metrics(Device& device) {
  if (held_out_ == 0) return Metrics{};
  Sums sums;
  for (size_t at = 0; at < held_out_; at += batch_) {
    std::vector<size_t> which;
    for (size_t i = at; i < std::min(at + batch_, held_out_); ++i) which.push_back(i);
    MAKAR_TRY(const Examples examples, read(which, true));
    Context ctx{device};
    ctx.activations = o_.activations;
    ForwardContext f{ctx};
    loss(f, examples, sums);
  }
  return sums.metrics();
}

}  // namespace makar
