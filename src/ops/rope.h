// Rotary positions: the angles of every scaling kind, and the op that turns rows.
#pragma once
#include <span>
#include <vector>

#include "ops/context.h"

namespace makar::ops {

enum class RopeScaling { kNone, kLinear, kDynamic, kLlama3, kYarn };

struct RopeOptions {
  double theta = 10000.0;
  int64_t rotary = 0;  // how many of each head's dimensions turn; even
  bool interleaved = false;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  int64_t original_positions = 0;                        // the context the model was first trained for
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  double attention_factor = 0.0, mscale = 0.0, mscale_all = 0.0;  // yarn; 0 means "by the rule"
  bool truncate = true;                                           // yarn
};

// The rotary / 2 frequencies and the factor on cos and sin. `length` matters to dynamic scaling alone: the
// longest position + 1 of the sequence.
struct RopeAngles {
  std::vector<double> frequencies;
  double attention_factor = 1.0;
};
RopeAngles rope_angles(const RopeOptions& options, int64_t length);

// Cosines and sines for one position a token, made once for all layers of a forward: [tokens, rotary / 2].
struct RopeTable {
  Tensor cos, sin;
};
RopeTable rope_table(Context& ctx, std::span<const int64_t> positions, const RopeAngles& angles);

// Turns x [tokens, heads * head_dim].
Tensor rope(Context& ctx, const Tensor& x, int64_t heads, const RopeOptions& options, const RopeTable& table);

}  // namespace makar::ops
