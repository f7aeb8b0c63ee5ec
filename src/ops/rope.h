// Rotary positions: the angles for every scaling kind, and the op that rotates rows.
#pragma once
#include <span>
#include <vector>

#include "ops/context.h"

namespace makar::ops {

enum class RopeScaling { kNone, kLinear, kDynamic, kLlama3, kYarn, kLongRope };

struct RopeOptions {
  double theta = 10000.0;
  int64_t rotary = 0;  // rotated dimensions per head; even
  bool interleaved = false;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  int64_t original_positions = 0;                        // context length of the original training
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  double attention_factor = 0.0;                         // yarn, longrope; 0: computed from the other options
  double mscale = 0.0, mscale_all = 0.0;                 // yarn; used if both are above 0
  bool truncate = true;                                  // yarn
  // longrope: divisors of the frequencies for sequences within the original context, and for longer ones
  std::vector<double> short_factors, long_factors;
  bool operator==(const RopeOptions&) const = default;
};

struct RopeFrequencies {
  std::vector<double> frequencies;  // rotary / 2
  double attention_factor = 1.0;    // multiplies cos and sin
};
inline bool depends_on_length(const RopeOptions& o) {
  return o.scaling == RopeScaling::kDynamic || o.scaling == RopeScaling::kLongRope;
}
// `length`: largest position + 1 of the sequence; only matters if the scaling depends on it.
RopeFrequencies rope_frequencies(const RopeOptions& options, int64_t length);

// Cosines and sines per token, computed once per forward pass for all layers: [tokens, rotary / 2].
struct RopeTable {
  Tensor cos, sin;
};
RopeTable rope_table(Context& ctx, std::span<const int64_t> positions, const RopeFrequencies& from);
RopeTable rope_table(Context& ctx, const Tensor& positions,
                     const RopeFrequencies& from);  // [rows] in device memory

// Rotates x [tokens, heads * head_dim].
Tensor rope(Context& ctx, const Tensor& x, int64_t heads, const RopeOptions& options, const RopeTable& table);

}  // namespace makar::ops
