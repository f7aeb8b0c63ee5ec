#include "nn/convolution.h"

#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/shape.h"

namespace makar {

Convolution::Convolution(ParameterSet& set, const std::string& name, int64_t width,
                         const ConvolutionSpec& spec, const NormSpec& norm)
    : spec_(spec),
      weight_(set.add(name + ".weight", {width, width, spec.taps})),
      bias_(set.add(name + ".bias", {width})),
      norm_(set, name + ".norm", width, norm) {}

Tensor Convolution::operator()(Context& ctx, const Tensor& x, const Tensor& y, const Batch& batch,
                               float dropout) const {
  const int64_t width = x.dim(1), taps = spec_.taps;
  // The file has the taps of each pair of channels together; here each tap is a matrix.
  const Tensor matrices = ops::transpose(ctx, ops::reshape(ctx, weight_->value, {width * width, taps}));
  const auto by_tap = ops::split(ctx, matrices, std::vector<int64_t>(static_cast<size_t>(taps), 1), 0);
  Tensor sum;
  for (int64_t t = 0; t < taps; ++t) {
    std::vector<int64_t> from(static_cast<size_t>(x.dim(0)), -1);
    for (const Sequence& s : batch.sequences)
      for (int64_t i = 0; i < s.length; ++i)
        if (const int64_t at = i + t - taps / 2; at >= 0 && at < s.length - s.unseen)
          from[static_cast<size_t>(s.start + i)] = s.start + at;
    const Tensor part = ops::linear(ctx, ops::gather_rows(ctx, x, from),
                                    ops::reshape(ctx, by_tap[static_cast<size_t>(t)], {width, width}));
    sum = sum.defined() ? ops::add(ctx, sum, part) : part;
  }
  sum = ops::dropout(ctx, ops::add(ctx, sum, bias_->value), dropout);
  return norm_(ctx, ops::add(ctx, y, ops::activate(ctx, sum, spec_.activation)));
}

}  // namespace makar
