#include "ops/next_rows.h"

namespace makar::ops {
namespace {

int64_t* writable(const Context& ctx, const Tensor& t) {
  check(t.dtype() == DType::kI64, "an i64 tensor is expected");
  return reinterpret_cast<int64_t*>(ctx.address(t));
}

}  // namespace

void choose_largest(Context& ctx, const Tensor& logits, const Tensor& chosen) {
  check(logits.rank() == 2 && chosen.count() == logits.dim(0), "choose_largest: one choice per row");
  ctx.device.arg_max({ctx.f32(logits), DType::kF32, writable(ctx, chosen), logits.dim(0), logits.dim(1)});
}

void sample_rows(Context& ctx, const Tensor& logits, const Tensor& samplers, const Tensor& chosen) {
  const int64_t rows = logits.dim(0);
  check(logits.rank() == 2 && chosen.count() == rows &&
            samplers.bytes() == static_cast<size_t>(rows) * sizeof(kernels::RowSampler),
        "sample_rows: one sampler and one choice per row");
  ctx.device.sample_rows({ctx.f32(logits), DType::kF32,
                          reinterpret_cast<kernels::RowSampler*>(writable(ctx, samplers)),
                          writable(ctx, chosen), rows, logits.dim(1)});
}

void advance_rows(Context& ctx, const Tensor& chosen, const Tensor& tokens, const Tensor& positions,
                  const Tensor& sequences) {
  const int64_t rows = chosen.count();
  check(tokens.count() == rows && positions.count() == rows &&
            sequences.bytes() == static_cast<size_t>(rows) * sizeof(kernels::SequenceRows),
        "advance_rows: one token, position and sequence per row");
  ctx.device.advance_rows({writable(ctx, chosen), writable(ctx, tokens), writable(ctx, positions),
                           reinterpret_cast<kernels::SequenceRows*>(writable(ctx, sequences)), rows});
}

void replace_values(Device& device, const Tensor& to, std::span<const int64_t> values) {
  check(to.dtype() == DType::kI64 && to.count() == static_cast<int64_t>(values.size()),
        "replace_values: values and tensor differ in size");
  device.memory().copy_in(address_on(device, to), reinterpret_cast<const std::byte*>(values.data()),
                          to.bytes());
}

std::unique_ptr<PendingCopy> copy_later(Device& device, const Tensor& from) {
  return device.copy_later(address_on(device, from), from.bytes());
}

}  // namespace makar::ops
