// DeiT's distillation: what the teacher says reaches the distillation token, and nothing else does.
#include "train/image.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "models/small_models.h"

namespace makar {
namespace {

LoadedModel model_of(const char* family, uint64_t seed) {
  Json c = small_config("vit");
  c["image_size"] = 8, c["patch_size"] = 4, c["num_channels"] = 1;
  if (std::string(family) == "deit")
    c["model_type"] = "deit", c["architectures"] = {"DeiTForImageClassificationWithTeacher"};
  return small_model(c, seed);
}

LabelledImages images() {
  LabelledImages out;
  out.count = 12, out.height = out.width = 8;
  const Rng rng(3, Purpose::kSynthetic);
  for (uint64_t i = 0; i < 12 * 64; ++i) out.pixels.push_back(static_cast<uint8_t>(rng.uniform(i) * 255));
  for (int i = 0; i < 12; ++i) out.labels.push_back(static_cast<uint8_t>(i % 3));
  return out;
}

// The gradient of the two heads' weights after one micro-batch.
std::pair<Tensor, Tensor> gradients(const Model* teacher, LoadedModel& student) {
  CpuDevice device(2);
  ImageTask task(*student.model, images(), images(), 12, 1, 0.0f, teacher);
  const auto batch = task.train_batch(0);
  check(batch.ok(), "no batch");
  Tape tape(device);
  const ParameterSet& set = student.model->parameters();
  set.clear_gradients();
  set.watch(tape);
  Context ctx{device, &tape};
  ForwardContext f{ctx};
  tape.backward(*batch->loss(f));
  set.collect(tape);
  std::vector<Tensor> heads;
  for (const auto& p : set.all())
    if (p->shape.rank() == 2 && p->shape[0] == 3) heads.push_back(p->grad);
  check(heads.size() == 2, "two heads are expected");
  return {heads[0], heads[1]};
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::equal(a.f32(), a.f32() + a.count(), b.f32());
}

TEST(Distillation, TheTeachersAnswersReachTheDistillationHeadAlone) {
  LoadedModel student = model_of("deit", 7);
  // A ViT has one special token where the DeiT has two: each reads the images in its own layout.
  const LoadedModel teacher = model_of("vit", 8), other = model_of("vit", 9);
  const auto labels = gradients(nullptr, student), taught = gradients(teacher.model.get(), student),
             taught_otherwise = gradients(other.model.get(), student);
  EXPECT_TRUE(equal(labels.first, taught.first)) << "the class token learns the labels";
  EXPECT_FALSE(equal(labels.second, taught.second)) << "the distillation token learns what the teacher says";
  EXPECT_FALSE(equal(taught_otherwise.second, taught.second));
}

TEST(Distillation, AValidationAsksNoTeacher) {
  LoadedModel student = model_of("deit", 7);
  const LoadedModel teacher = model_of("vit", 8);
  CpuDevice device(1);
  ImageTask with(*student.model, images(), images(), 6, 1, 0.0f, teacher.model.get());
  ImageTask without(*student.model, images(), images(), 6, 1, 0.0f);
  Context ctx{device};
  ForwardContext f{ctx};
  EXPECT_EQ((*with.validation_batch(0)->loss(f)).f32()[0], (*without.validation_batch(0)->loss(f)).f32()[0]);
}

}  // namespace
}  // namespace makar
