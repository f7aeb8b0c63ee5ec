// Image classification for ViT and DeiT. DeiT's distillation token is trained on the teacher's prediction for
// each image (hard distillation; Touvron et al., 2020).
#pragma once
#include "data/datasets.h"
#include "data/idx.h"
#include "train/examples.h"

namespace makar {

class ImageTask : public ExampleTask {
 public:
  // `teacher`: its predictions are the targets of the distillation head; null: the labels are.
  ImageTask(Model& model, LabelledImages train, LabelledImages validation, int64_t batch, uint64_t seed,
            float smoothing, const Model* teacher = nullptr);
  Result<Metrics> metrics(Device& device) override;
  std::string watched() const override { return "accuracy"; }
  bool tokens_are_targets() const override { return false; }

 protected:
  Result<MicroBatch> make(std::span<const size_t> which, bool validation, uint64_t draw) override;

 private:
  Model& model_;
  LabelledImages train_, validation_;
  float smoothing_;
  const Model* teacher_;
};

struct ImageData {
  LabelledImages train, validation;
};
// Reads the images of a run, the first training and the first validation dataset; they must have the size
// that the model takes. Adds the hash of the training images to `identity`.
Result<ImageData> open_images(const Model& model, const DatasetOptions& options, Json& identity);
// Checks that the teacher takes the student's images and has its classes, and that the student has a
// distillation token.
Status check_teacher(const Model& student, const Model& teacher, const std::string& place);

struct Shift {
  int64_t down = 0, right = 0;  // in pixels
};
// Pixels in the model's input range, (x / 255 - 0.5) / 0.5; image i is translated by shifts[i] if given.
Batch image_batch(const Model& model, const LabelledImages& images, std::span<const size_t> which,
                  std::span<const Shift> shifts = {});

}  // namespace makar
