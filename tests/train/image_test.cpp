// DeiT's distillation: the teacher's predictions train the distillation token and nothing else.
#include "train/image.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "models/small_models.h"
#include "scratch_folder.h"

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

TEST(Distillation, TheTeacherTrainsOnlyTheDistillationHead) {
  LoadedModel student = model_of("deit", 7);
  // A ViT has one special token and a DeiT two, so each model gets its own batch.
  const LoadedModel teacher = model_of("vit", 8), other = model_of("vit", 9);
  const auto from_labels = gradients(nullptr, student),
             from_teacher = gradients(teacher.model.get(), student),
             from_other_teacher = gradients(other.model.get(), student);
  EXPECT_TRUE(equal(from_labels.first, from_teacher.first)) << "the class token learns the labels";
  EXPECT_FALSE(equal(from_labels.second, from_teacher.second))
      << "the distillation token learns the teacher's predictions";
  EXPECT_FALSE(equal(from_other_teacher.second, from_teacher.second));
}

TEST(Distillation, ValidationDoesNotRunTheTeacher) {
  LoadedModel student = model_of("deit", 7);
  const LoadedModel teacher = model_of("vit", 8);
  CpuDevice device(1);
  ImageTask with_teacher(*student.model, images(), images(), 6, 1, 0.0f, teacher.model.get());
  ImageTask without_teacher(*student.model, images(), images(), 6, 1, 0.0f);
  Context ctx{device};
  ForwardContext f{ctx};
  EXPECT_EQ((*with_teacher.validation_batch(0)->loss(f)).f32()[0],
            (*without_teacher.validation_batch(0)->loss(f)).f32()[0]);
}

// IDX files of `count` square images of `side` pixels.
std::string write_images(const ScratchFolder& f, const std::string& name, uint8_t count, uint8_t side) {
  const auto number = [](uint8_t v) { return std::string({0, 0, 0, static_cast<char>(v)}); };
  f.write(name + "-labels-idx1-ubyte",
          std::string("\0\0\x08\x01", 4) + number(count) + std::string(count, 1));
  return f.write(name + "-images-idx3-ubyte", std::string("\0\0\x08\x03", 4) + number(count) + number(side) +
                                                  number(side) + std::string(size_t{count} * side * side, 7));
}

TEST(Images, AreReadHashedAndCheckedForSize) {
  ScratchFolder f;
  const LoadedModel vit = model_of("vit", 8);
  DatasetOptions o;
  o.train = {write_images(f, "a", 5, 8)}, o.validation = {write_images(f, "b", 2, 8)};
  Json identity, other_identity;
  const auto data = open_images(*vit.model, o, identity);
  ASSERT_TRUE(data.ok()) << data.error().text();
  EXPECT_EQ(data->train.count, 5);
  EXPECT_EQ(data->validation.count, 2);
  o.train = {write_images(f, "c", 6, 8)};
  ASSERT_TRUE(open_images(*vit.model, o, other_identity).ok());
  EXPECT_NE(identity, other_identity);
  o.validation = {write_images(f, "d", 2, 9)};
  const auto wrong = open_images(*vit.model, o, other_identity);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().text().find("8 x 8, these have 9 x 9"), std::string::npos) << wrong.error().text();
}

TEST(Images, ATeacherMustAcceptTheImagesOfItsStudent) {
  const LoadedModel student = model_of("deit", 7), teacher = model_of("vit", 8);
  EXPECT_TRUE(check_teacher(*student.model, *teacher.model, "teacher").ok());
  EXPECT_FALSE(check_teacher(*teacher.model, *student.model, "teacher").ok()) << "no distillation token";
  Json config = small_config("vit");
  config["image_size"] = 16, config["patch_size"] = 4, config["num_channels"] = 1;
  EXPECT_FALSE(check_teacher(*student.model, *small_model(config, 1).model, "teacher").ok())
      << "another size";
  config["image_size"] = 8, config["num_channels"] = 3;
  EXPECT_FALSE(check_teacher(*student.model, *small_model(config, 1).model, "teacher").ok())
      << "other channels";
}

}  // namespace
}  // namespace makar
