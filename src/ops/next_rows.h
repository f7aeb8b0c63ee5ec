// The end of a decoding step: the next token of each row is chosen on the device and becomes the input of the
// next step. Arrays are i64 in the device's memory.
#pragma once
#include <memory>
#include <span>

#include "ops/context.h"

namespace makar::ops {

// chosen [rows]: the first index of the largest logit [rows, vocabulary] in f32; -1 if no logit is the
// largest, or one is NaN or +infinity.
void choose_largest(Context& ctx, const Tensor& logits, const Tensor& chosen);
// chosen [rows]: drawn as `samplers` (kernels::RowSampler) [rows, 5] tell, whose indices advance; -1 also
// where only the host's sampler can draw.
void sample_rows(Context& ctx, const Tensor& logits, const Tensor& samplers, const Tensor& chosen);
// The chosen tokens follow: tokens [rows], positions [rows], sequences (kernels::SequenceRows) [rows, 6].
void advance_rows(Context& ctx, const Tensor& chosen, const Tensor& tokens, const Tensor& positions,
                  const Tensor& sequences);

// Overwrites all values of `to`, after the kernels called before.
void replace_values(Device& device, const Tensor& to, std::span<const int64_t> values);
// Starts to copy a tensor to the host.
std::unique_ptr<PendingCopy> copy_later(Device& device, const Tensor& from);

}  // namespace makar::ops
