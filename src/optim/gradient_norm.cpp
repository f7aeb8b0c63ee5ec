#include "optim/gradient_norm.h"

#include <algorithm>
#include <cmath>

namespace makar {

double gradient_norm(Device& device, const ParameterSet& parameters) {
  std::vector<Tensor> gradients;
  for (const auto& p : parameters.all())
    if (p->trainable && !p->buffer && p->grad.defined()) gradients.push_back(p->grad);
  return gradient_norm(device, gradients);
}

// Sums of squares of fixed chunks on the device, added in order in double on the host.
double gradient_norm(Device& device, std::span<const Tensor> gradients) {
  const auto chunks = [](const Tensor& t) {
    return (t.count() + kernels::kSquaresChunk - 1) / kernels::kSquaresChunk;
  };
  int64_t count = 0;
  for (const Tensor& g : gradients) count += chunks(g);
  const Tensor sums = Tensor::empty({count}, DType::kF32, device.memory());
  float* to = f32_on(device, sums);
  std::vector<kernels::SumSquares> all;
  for (const Tensor& g : gradients) {
    all.push_back({f32_on(device, g), to, g.count()});
    to += chunks(g);
  }
  device.sum_squares({all.data(), static_cast<int64_t>(all.size())});
  double total = 0;
  const Tensor on_host = sums.host();
  for (const float sum : on_host.span()) total += sum;
  return std::sqrt(total);
}

double clip_factor(double norm, double max) { return max > 0 ? std::min(1.0, max / (norm + 1e-6)) : 1.0; }

}  // namespace makar
