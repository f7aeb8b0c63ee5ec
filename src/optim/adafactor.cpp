// Adafactor (Shazeer & Stern, 2018) as torch.optim.Adafactor computes it: the second moment of a matrix is
// the outer product of its row and column means, and steps are relative to the RMS of the parameter.
#include <algorithm>
#include <cmath>

#include "ops/tape.h"
#include "optim/rules.h"

namespace makar {
namespace {

constexpr double kDecayPower = -0.8;  // decay rate of the second moment: 1 - step^power

}  // namespace

std::vector<Slot> adafactor_slots(const Shape& shape) {
  if (shape.rank() < 2) return {{"variance", shape}};
  Shape row = shape, col = shape;
  row[-1] = 1, col[-2] = 1;
  return {{"row_var", row}, {"col_var", col}};
}

static void step_one(const Update& u) {
  const double step = static_cast<double>(u.step);
  const bool matrix = u.p.rank() >= 2;
  const Tensor scratch = Tensor::empty(u.p.shape(), DType::kF32, u.device.memory());
  kernels::Adafactor a{};
  a.p = f32_on(u.device, u.p), a.g = f32_on(u.device, u.g);
  a.row_var = f32_on(u.device, u.slots[0]);
  a.col_var = matrix ? f32_on(u.device, u.slots[1]) : nullptr;
  a.scratch = f32_on(u.device, scratch);
  a.n = u.p.count();
  if (matrix) a.rows = u.p.dim(-2), a.cols = u.p.dim(-1);
  a.weight = std::pow(step, kDecayPower), a.rho = std::min(u.lr, 1.0 / std::sqrt(step));
  a.factor = static_cast<float>(u.factor), a.decay = static_cast<float>(1.0 - u.lr * u.weight_decay);
  u.device.adafactor(a);
}

void adafactor(std::span<const Update> all) {
  for (const Update& u : all) step_one(u);
}

}  // namespace makar
