#include "train/image.h"

#include <algorithm>

#include "base/rng.h"
#include "ops/elementwise.h"
#include "ops/softmax.h"

namespace makar {

Batch image_batch(const Model& model, const LabelledImages& images, std::span<const size_t> which,
                  std::span<const Shift> shifts) {
  const PatchSpec& p = *model.spec().encoder->embedding.patches;
  check(p.image_height == images.height && p.image_width == images.width,
        "the images have the size that the model takes");
  const auto n = static_cast<int64_t>(which.size()), size = images.height * images.width;
  Tensor pixels = Tensor::full({n, p.channels, images.height, images.width}, -1.0f);
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* from = images.pixels.data() + static_cast<int64_t>(which[static_cast<size_t>(i)]) * size;
    const Shift shift = shifts.empty() ? Shift{} : shifts[static_cast<size_t>(i)];
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t y = 0; y < images.height; ++y)
        for (int64_t x = 0; x < images.width; ++x) {
          const int64_t sy = y - shift.down, sx = x - shift.right;
          if (sy < 0 || sx < 0 || sy >= images.height || sx >= images.width) continue;
          pixels.f32()[(i * p.channels + c) * size + y * images.width + x] =
              static_cast<float>(from[sy * images.width + sx]) / 127.5f - 1.0f;
        }
  }
  return pixel_batch(model.spec(), pixels);
}

namespace {

constexpr size_t kEvaluationBatch = 256;  // images

std::vector<int64_t> predicted_classes(const Model& model, Device& device, const Tensor& pixels) {
  // The teacher may have other special tokens than the student, so each model has its own batch.
  const Batch batch = pixel_batch(model.spec(), pixels);
  Context ctx{device};
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source = batch;
  const Tensor logits = model.outputs(ctx, model.hidden(f, inputs), batch).at("logits").host();
  std::vector<int64_t> out;
  for (int64_t i = 0; i < logits.dim(0); ++i) {
    const float* row = logits.f32() + i * logits.dim(1);
    out.push_back(std::max_element(row, row + logits.dim(1)) - row);
  }
  return out;
}

Status check_images(const Model& model, int64_t height, int64_t width, const std::string& place) {
  if (!model.spec().encoder || !model.spec().encoder->embedding.patches || model.spec().head.labels < 1)
    return error_of(Error::Kind::kUnsupported, place, "a {} does not classify images",
                    model.spec().architecture);
  const PatchSpec& p = *model.spec().encoder->embedding.patches;
  if (p.image_height != height || p.image_width != width)
    return error_at(place, "the model takes images of {} x {}, these have {} x {}", p.image_height,
                    p.image_width, height, width);
  return Done{};
}

}  // namespace

Result<ImageData> open_images(const Model& model, const DatasetOptions& options, Json& identity) {
  ImageData out;
  const auto read = [&](const std::string& path, LabelledImages& into) -> Status {
    MAKAR_TRY(into, read_labelled_images(path));
    return check_images(model, into.height, into.width, path);
  };
  MAKAR_RETURN_IF_ERROR(read(options.train.at(0), out.train));
  if (!options.validation.empty()) MAKAR_RETURN_IF_ERROR(read(options.validation[0], out.validation));
  Sha256 sum;
  sum.add(std::as_bytes(std::span(out.train.pixels)));
  identity["data"] = sum.hex();
  options.say(
      fmt::format("{} images for training, {} for validation", out.train.count, out.validation.count));
  return out;
}

Status check_teacher(const Model& student, const Model& teacher, const std::string& place) {
  const PatchSpec& patches = *student.spec().encoder->embedding.patches;
  if (!patches.distillation_token)
    return error_of(Error::Kind::kUnsupported, "teacher", "a {} has no distillation token to train",
                    student.spec().architecture);
  MAKAR_RETURN_IF_ERROR(check_images(teacher, patches.image_height, patches.image_width, place));
  const int64_t classes = teacher.spec().head.labels,
                channels = teacher.spec().encoder->embedding.patches->channels;
  if (classes != student.spec().head.labels || channels != patches.channels)
    return error_at(place,
                    "the teacher has {} classes and {} channels, the student {} and {}; they must be equal",
                    classes, channels, student.spec().head.labels, patches.channels);
  return Done{};
}

ImageTask::ImageTask(Model& model, LabelledImages train, LabelledImages validation, int64_t batch,
                     uint64_t seed, float smoothing, const Model* teacher)
    : ExampleTask(static_cast<size_t>(train.count), static_cast<size_t>(validation.count), batch, seed),
      model_(model),
      train_(std::move(train)),
      validation_(std::move(validation)),
      smoothing_(smoothing),
      teacher_(teacher) {}

Result<MicroBatch> ImageTask::make(std::span<const size_t> which, bool validation, uint64_t draw) {
  const LabelledImages& images = validation ? validation_ : train_;
  std::vector<Shift> shifts;
  std::vector<int64_t> targets;
  const Rng rng(seed_, Purpose::kMask, draw);
  for (size_t i = 0; i < which.size(); ++i) {
    targets.push_back(images.labels[which[i]]);
    if (targets.back() >= model_.spec().head.labels)
      return error_at("labels", "image {} has label {}; there are {} classes", which[i], targets.back(),
                      model_.spec().head.labels);
    const auto bits = rng.bits(i);
    if (!validation)  // translate by at most one pixel
      shifts.push_back({static_cast<int64_t>(bits[0] % 3) - 1, static_cast<int64_t>(bits[1] % 3) - 1});
  }
  Batch batch = image_batch(model_, images, which, shifts);
  MicroBatch out;
  out.tokens = batch.rows(), out.squared_lengths = squared_lengths(batch),
  out.weight = static_cast<double>(which.size());
  out.loss = [this, batch = std::move(batch),
              targets = std::move(targets)](ForwardContext& f) -> Result<Tensor> {
    Context& ctx = f.ops;
    Inputs inputs;
    inputs.source = batch;
    auto outputs = model_.outputs(ctx, model_.hidden(f, inputs), batch);
    ops::CrossEntropyOptions o;
    o.smoothing = ctx.tape ? smoothing_ : 0.0f;
    if (!outputs.contains("distillation_logits"))
      return ops::cross_entropy(ctx, outputs.at("logits"), targets, o);
    const auto teacher_labels =
        teacher_ && ctx.tape ? predicted_classes(*teacher_, ctx.device, batch.pixels) : targets;
    return ops::scale(ctx,
                      ops::add(ctx, ops::cross_entropy(ctx, outputs.at("cls_logits"), targets, o),
                               ops::cross_entropy(ctx, outputs.at("distillation_logits"), teacher_labels, o)),
                      0.5f);
  };
  return out;
}

Result<Metrics> ImageTask::metrics(Device& device) {
  double correct = 0;
  for (size_t at = 0; at < held_out_; at += kEvaluationBatch) {
    std::vector<size_t> which;
    for (size_t i = at; i < std::min(at + kEvaluationBatch, held_out_); ++i) which.push_back(i);
    const auto predicted = predicted_classes(model_, device, image_batch(model_, validation_, which).pixels);
    for (size_t i = 0; i < which.size(); ++i) correct += predicted[i] == validation_.labels[which[i]];
  }
  return Metrics{{"accuracy", held_out_ > 0 ? correct / static_cast<double>(held_out_) : 0}};
}

}  // namespace makar
