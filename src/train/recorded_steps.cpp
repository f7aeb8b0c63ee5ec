#include "train/recorded_steps.h"

#include <algorithm>

#include "infer/decode_steps.h"
#include "ops/next_rows.h"
#include "optim/rules.h"
#include "train/loop.h"

namespace makar {
namespace {

// All that the kernels of a step depend on, besides the values of weights, tokens and targets; empty if the
// step cannot be recorded.
std::vector<int64_t> shape_of(const Loop& loop, const std::vector<MicroBatch>& batches) {
  const Model& model = loop.models.main();
  const auto rule = find_rule(loop.settings.optimizer);
  if (!loop.record.value_or(loop.device.records_work()) || !loop.task.trains_next_tokens() || loop.round ||
      loop.models.all().size() > 1 || !DecodeSteps::supports(model) || model.spec().decoder->routed() ||
      !rule.ok() || !(*rule)->names[0].starts_with("adam"))
    return {};
  std::vector<int64_t> shape;
  for (const auto& p : model.parameters().all()) {
    shape.push_back(p->value.defined() ? static_cast<int64_t>(p->value.id()) : 0);
    shape.push_back(p->trainable);
  }
  // Forward passes on the host check the ids; recorded work does not.
  const int64_t vocab = model.decoder()->tokens()->shape[0];
  const auto all_in_range = [&](const std::vector<int64_t>& ids) {
    return std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id >= 0 && id < vocab; });
  };
  for (const MicroBatch& b : batches) {
    if (!b.language) return {};
    const Batch& rows = b.language->inputs.source;
    const std::vector<int64_t>& targets = b.language->targets;
    if (!all_in_range(rows.tokens) || !all_in_range(targets) || targets.size() != rows.tokens.size())
      return {};
    shape.push_back(rows.rows());
    shape.insert(shape.end(), rows.positions.begin(), rows.positions.end());
    for (const Sequence& s : rows.sequences)
      shape.insert(shape.end(), {s.start, s.length, s.past, s.unseen, s.total});
  }
  return shape;
}

}  // namespace

struct RecordedSteps::Work {
  std::vector<MicroBatch> batches;   // of the step that was recorded; others only have other ids
  std::vector<UploadedIndices> ids;  // tokens and targets of each micro-batch
  StepLosses losses;
  std::vector<Tensor> gradients;  // by parameter
  std::unique_ptr<RecordedWork> recorded;

  Work(const Loop& loop, const std::vector<MicroBatch>& first_batches, uint64_t first)
      : batches(first_batches) {
    const Context ctx{loop.device};
    for (const MicroBatch& b : batches)
      for (const std::vector<int64_t>* values : {&b.language->inputs.source.tokens, &b.language->targets})
        ids.push_back({*values, ctx.upload(*values)});
    const Loop* const all = &loop;
    recorded = loop.device.record([this, all, first] {
      losses = std::move(backward_step(*all, batches, first, ids)).value();
      gradients.clear();
      all->models.each_parameter(
          [this](const std::string&, const Parameter& p) { gradients.push_back(p.grad); });
      for (const UploadedIndices& u : ids) check(u.used, "a recorded step reads its tokens on the device");
    });
  }

  void run(const Loop& loop, const std::vector<MicroBatch>& now) {
    for (size_t i = 0; i < now.size(); ++i) {
      ops::replace_values(loop.device, ids[2 * i].on_device, now[i].language->inputs.source.tokens);
      ops::replace_values(loop.device, ids[2 * i + 1].on_device, now[i].language->targets);
    }
    recorded->run();
    auto gradient = gradients.begin();
    loop.models.each_parameter([&](const std::string&, Parameter& p) { p.grad = *gradient++; });
  }
};

RecordedSteps::RecordedSteps() = default;
RecordedSteps::~RecordedSteps() = default;

void RecordedSteps::release() { work_.reset(); }

Result<StepLosses> RecordedSteps::backward(const Loop& loop, const std::vector<MicroBatch>& batches,
                                           uint64_t first) {
  if (std::vector<int64_t> shape = shape_of(loop, batches); shape != shape_) {
    if (work_) wait_ = std::min<int64_t>(2 * wait_, 16);
    release();
    shape_ = std::move(shape), seen_ = 0;
  }
  ++seen_;
  if (!work_ && !shape_.empty() && seen_ > wait_ && !failed_) try {
      work_ = std::make_unique<Work>(loop, batches, first);
    } catch (const std::exception& e) {  // also if the memory does not suffice
      failed_ = true;
      if (loop.events.say) loop.events.say(std::string("steps are not recorded: ") + e.what());
    }
  if (work_) {
    work_->run(loop, batches);
    return work_->losses;
  }
  MAKAR_TRY(StepLosses out, backward_step(loop, batches, first));
  if (out.random) shape_.clear();
  return out;
}

}  // namespace makar
