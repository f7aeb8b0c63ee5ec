#include <cmath>

#include "base/rng.h"
#include "kernels/cpu/ranges.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

void CpuDevice::fill(const Fill& a) {
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) { std::fill(a.y + i, a.y + e, a.value); });
}

void CpuDevice::fill_from(const FillFrom& a) { fill({a.y, a.n, static_cast<float>(a.value[0] * a.factor)}); }

void CpuDevice::add(const Add& a) {
  const auto body = [&](const float* x, const float* b, float* y, int64_t count) {
    if (!a.subtract) return cpu().add(x, b, y, count);
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] - b[i];
  };
  if (a.rows == 1)
    return each_range(*pool_, a.n, [&](int64_t i, int64_t e) { body(a.a + i, a.b + i, a.y + i, e - i); });
  each_rows(*pool_, a.rows, a.n, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) body(a.a + r * a.n, a.b, a.y + r * a.n, a.n);
  });
}

void CpuDevice::multiply(const Multiply& a) {
  if (a.rows == 1)
    return each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
      cpu().multiply(a.a + i, a.b + i, a.y + i, e - i, a.accumulate);
    });
  each_rows(*pool_, a.rows, a.n, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) cpu().multiply(a.a + r * a.n, a.b, a.y + r * a.n, a.n, a.accumulate);
  });
}

void CpuDevice::multiply_sum(const MultiplySum& a) {
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
    for (int64_t r = 0; r < a.rows; ++r)
      cpu().multiply(a.a + r * a.n + i, a.b + r * a.n + i, a.y + i, e - i, a.accumulate || r > 0);
  });
}

void CpuDevice::sum_rows(const SumRows& a) {
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
    if (!a.accumulate) std::fill(a.y + i, a.y + e, 0.0f);
    for (int64_t r = 0; r < a.rows; ++r) cpu().scale(a.x + r * a.n + i, a.factor, a.y + i, e - i, true);
  });
}

void CpuDevice::scale(const Scale& a) {
  each_range(*pool_, a.n,
             [&](int64_t i, int64_t e) { cpu().scale(a.x + i, a.factor, a.y + i, e - i, a.accumulate); });
}

void CpuDevice::scale_by(const ScaleBy& a) {
  if (a.factor[0] == 1.0f && a.x == a.y && !a.accumulate) return;
  scale({a.x, a.y, a.n, a.factor[0], a.accumulate});
}

void CpuDevice::shift(const Shift& a) {
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
    for (; i < e; ++i) a.y[i] = a.x[i] + a.constant;
  });
}

namespace {

// Calls body(value, gradient) with the functions of `kind`: y = value(a, b), (dy/da, dy/db) = gradient(a, b).
template <class F>
void with_pair(PairKind kind, float low, float high, F&& body) {
  using Gradients = std::pair<float, float>;
  switch (kind) {
    case PairKind::kDivide:
      return body([](float x, float y) { return x / y; },
                  [](float x, float y) {
                    return Gradients{1.0f / y, -x / (y * y)};
                  });
    case PairKind::kMinimum:
      return body([](float x, float y) { return y < x ? y : x; },
                  [](float x, float y) {
                    return y < x ? Gradients{0, 1} : Gradients{1, 0};
                  });
    case PairKind::kMaximum:
      return body([](float x, float y) { return y > x ? y : x; },
                  [](float x, float y) {
                    return y > x ? Gradients{0, 1} : Gradients{1, 0};
                  });
    case PairKind::kClamp:
      return body([=](float x, float) { return x < low ? low : (x > high ? high : x); },
                  [=](float x, float) {
                    return Gradients{x >= low && x <= high ? 1.0f : 0.0f, 0.0f};
                  });
  }
}

}  // namespace

void CpuDevice::pair(const Pair& a) {
  with_pair(a.kind, a.low, a.high, [&](auto value, auto) {
    each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
      for (; i < e; ++i) a.y[i] = value(a.a[i], a.b[i]);
    });
  });
}

void CpuDevice::pair_backward(const PairBackward& a) {
  with_pair(a.kind, a.low, a.high, [&](auto, auto gradient) {
    each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
      for (; i < e; ++i) {
        const auto [ga, gb] = gradient(a.a[i], a.b[i]);
        a.da[i] = ga * a.dy[i];
        a.db[i] = gb * a.dy[i];
      }
    });
  });
}

void CpuDevice::activate(const Activate& a) {
  const auto& f = cpu().activation[static_cast<int>(a.kind)];
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) { f.forward(a.x + i, a.y + i, e - i); });
}

void CpuDevice::activate_backward(const ActivateBackward& a) {
  const auto& f = cpu().activation[static_cast<int>(a.kind)];
  each_range(*pool_, a.n,
             [&](int64_t i, int64_t e) { f.backward(a.x + i, a.dy + i, a.dx + i, e - i, a.accumulate); });
}

void CpuDevice::gated(const Gated& a) {
  const auto& f = cpu().activation[static_cast<int>(a.kind)];
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) { f.gated(a.gate + i, a.up + i, a.y + i, e - i); });
}

void CpuDevice::gated_backward(const GatedBackward& a) {
  const auto& f = cpu().activation[static_cast<int>(a.kind)];
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
    f.gated_backward(a.gate + i, a.up + i, a.dy + i, a.dgate + i, a.dup + i, e - i);
  });
}

void CpuDevice::dropout(const Dropout& a) {
  const Rng rng(a.seed, Purpose::kDropout, a.step);
  const float keep = 1.0f / (1.0f - a.rate);
  const auto factor = [&](int64_t i) {
    // Four elements share a draw, whose index is (stream, 1, block) with 20, 1 and 43 bits.
    const uint64_t block = static_cast<uint64_t>(i) / 4;
    const uint32_t draw = rng.bits(a.stream << 44 | uint64_t{1} << 43 | block)[static_cast<size_t>(i % 4)];
    return static_cast<float>(draw >> 8) * 0x1p-24f < a.rate ? 0.0f : keep;
  };
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
    if (a.accumulate)
      for (; i < e; ++i) a.y[i] = a.x[i] * factor(i) + a.y[i];
    else
      for (; i < e; ++i) a.y[i] = a.x[i] * factor(i);
  });
}

void CpuDevice::blend(const Blend& a) {
  each_range(*pool_, a.n, [&](int64_t i, int64_t e) {
    for (; i < e; ++i) a.y[i] += a.weight * (a.x[i] - a.y[i]);
  });
}

}  // namespace makar
