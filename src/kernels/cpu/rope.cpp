#include "kernels/cpu/ranges.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

namespace {

constexpr int64_t kRopeCost = 8;  // cost of a sine and a cosine, in elements of plain work

}  // namespace

void CpuDevice::rope_table(const RopeTableRows& a) {
  each_rows(*pool_, a.rows, a.half * kRopeCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      cpu().rope_cos_sin(static_cast<float>(a.positions[r]), a.frequencies, a.half, a.factor,
                         a.cos + r * a.half, a.sin + r * a.half);
  });
}

void CpuDevice::rope(const Rope& a) {
  const int64_t width = a.heads * a.head_dim, half = a.rotary / 2;
  each_rows(*pool_, a.rows, width, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      cpu().rope(a.x + r * width, a.y + r * width,
                 {a.cos + r * half, a.sin + r * half, static_cast<int>(a.heads), static_cast<int>(a.head_dim),
                  static_cast<int>(a.rotary), a.interleaved, a.sign});
  });
}

}  // namespace makar
