#include "kernels/host_math.h"

#include "kernels/cpu/table.h"

namespace makar::kernels {

float log_sum_exp(const float* x, int64_t n) { return cpu().log_sum_exp(x, n); }
void exp_of(const float* x, float* y, int64_t n) {
  cpu().activation[static_cast<int>(Activation::kExp)].forward(x, y, n);
}
bool int16_products_are_faster() { return cpu().int16_is_faster; }

}  // namespace makar::kernels
