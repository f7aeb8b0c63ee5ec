// A generative adversarial network (Goodfellow et al., 2014), convolutional (Radford et al., 2016) or of two
// multi-layer perceptrons, with the usual stabilisers: the non-saturating loss, one-sided label smoothing,
// dropout and leaky units in the discriminator, batch norm in the generator, a small beta1, a separate
// learning rate for the discriminator, noise on its inputs that decays to 0, and a moving average of the
// generator's weights.
#pragma once
#include <functional>

#include "base/json.h"
#include "base/rng.h"
#include "nets/batches.h"
#include "nets/numbers.h"

namespace makar {

struct GanOptions {
  std::string kind = "conv";             // or mlp
  std::string generator, discriminator;  // widths or channels of the layers; empty: the kind's default
  int64_t code = 64;
  double discriminator_rate = 0;  // learning rate; 0: the same as the generator's
  double smoothing = 0.1;         // the target for real images is 1 - smoothing
  double noise = 0.1;             // deviation of the noise on the discriminator's inputs; 0 at the end
  double dropout = 0.3;           // of the discriminator
  double average = 0.995;         // decay of the moving average of the generator's weights; 0: none
  NetTraining training;
  std::function<void(int64_t epoch, size_t step, size_t steps)> progress = [](int64_t, size_t, size_t) {};
};
// Checks the options; the second one also checks that they fit the images.
Status check(const GanOptions& options);
Status check(const GanOptions& options, const Numbers& data);

struct GanEpoch {
  int64_t epoch = 0;
  double discriminator_loss = 0, generator_loss = 0;
  double real = 0, generated = 0;  // mean probability of "real" for real and generated images
};

class Gan {
 public:
  Gan() = default;
  // Images of random codes, generated with the moving average of the weights so far; sample() uses the final
  // average.
  using Preview = std::function<std::vector<float>(size_t count)>;
  static Result<Gan> train(const Numbers& data, const GanOptions& options, Device& device,
                           const std::function<void(const GanEpoch&, const Preview&)>& each);
  // Images of random codes, [count * width], from 0 to 1, generated with the averaged weights.
  std::vector<float> sample(size_t count, uint64_t seed, Device& device);
  const std::vector<GanEpoch>& epochs() const { return epochs_; }
  int64_t height() const { return height_; }
  int64_t columns() const { return columns_; }
  Status save(const std::string& folder) const;
  // The generator only.
  static Result<Gan> load(const std::string& folder);

 private:
  void build(const Numbers& data, const GanOptions& options);
  struct Training;
  Tensor generate(Context& ctx, size_t rows, const Rng& rng);
  // Images generated with these weights; leaves the network unchanged.
  std::vector<float> preview(size_t count, const std::vector<Tensor>& weights, Device& device);
  int64_t code_ = 0, height_ = 0, columns_ = 0;
  uint64_t seed_ = 0;
  ParameterSet generator_set_, discriminator_set_;
  using Net = std::function<Tensor(Context&, const Tensor&)>;
  Net generator_, discriminator_;
  Json generator_spec_;
  std::vector<GanEpoch> epochs_;
};

}  // namespace makar
