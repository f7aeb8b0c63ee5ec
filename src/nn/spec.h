// The explicit description of a transformer: everything that tells one family from another. A family's page
// fills these structs from its config.json; the stack that runs them exists once.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/elementwise.h"
#include "ops/rope.h"

namespace makar {

using kernels::Activation;

struct NormSpec {
  enum class Kind { kLayer, kRms } kind = Kind::kLayer;
  float eps = 1e-5f;
  bool bias = true;     // LayerNorm's b
  bool affine = true;   // LayerNorm's w (and b)
  float offset = 0.0f;  // 1 where the weight is stored as w - 1
};

enum class NormPlace {
  kPre,       // x + f(norm(x))
  kPost,      // norm(x + f(x))
  kSandwich,  // x + norm'(f(norm(x)))
};

enum class BiasKind { kNone, kAlibi, kT5 };

struct AttentionSpec {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  bool causal = true;
  float scale = 1.0f;
  float soft_cap = 0.0f;
  float dropout = 0.0f;
  bool qkv_bias = false, out_bias = false;
  bool qk_norm = false;  // an RMSNorm on each head of q and k (Qwen3)
  BiasKind bias = BiasKind::kNone;
  float alibi_scale = 1.0f;
  bool alibi_rounded = false;  // to bf16, by key (Falcon)
  int64_t t5_buckets = 32, t5_max_distance = 128;
  std::optional<ops::RopeOptions> rope;
};

struct FeedForwardSpec {
  int64_t width = 0;
  Activation activation = Activation::kGelu;
  bool gated = false;
  bool bias = false;
  int64_t experts = 0, experts_per_token = 0;  // 0: dense
};

struct BlockSpec {
  NormSpec norm;
  NormPlace place = NormPlace::kPre;
  bool parallel = false;             // x + attention(norm1(x)) + feed_forward(norm2(x))
  bool shared_norm = false;          // parallel, with one norm for both
  bool residual_after_norm = false;  // the residual is taken after the norm (BLOOM's option)
  AttentionSpec attention;
  std::optional<AttentionSpec> cross;  // attention to an encoder
  FeedForwardSpec feed_forward;
  float dropout = 0.0f;
};

enum class PositionKind { kNone, kLearned, kSinusoidal };

struct PatchSpec {
  int64_t image_height = 0, image_width = 0, patch = 0, channels = 0;
  bool distillation_token = false;
};

struct EmbeddingSpec {
  int64_t vocab = 0;
  int64_t width = 0;  // of the tables; a projection follows where it differs from the stack's
  bool project = false;
  bool project_bias = false;
  bool project_early = false;  // before the positions are added, which are then as wide as the stack (OPT)
  int64_t padding = -1;        // a token whose row gets no gradient, as PyTorch's padding_idx
  float scale = 1.0f;          // on token embeddings
  int64_t types = 0;           // token type table, 0 for none
  PositionKind positions = PositionKind::kNone;
  int64_t max_positions = 0;    // rows of the table
  int64_t position_offset = 0;  // added to every position before the look-up
  bool count_positions =
      false;  // a position counts the real tokens before it, not the columns (RoBERTa, OPT)
  bool norm = false;
  std::optional<PatchSpec> patches;  // images instead of tokens
  float dropout = 0.0f;
};

struct StackSpec {
  std::string name;  // "encoder" or "decoder": the prefix of its parameters
  int64_t width = 0;
  int64_t layers = 0;
  int64_t groups =
      0;  // distinct sets of weights shared by the layers in turn (ALBERT); 0: every layer its own
  BlockSpec block;
  std::vector<int64_t> windows;  // one a layer, 0 for none; empty: none anywhere
  EmbeddingSpec embedding;
  bool final_norm = true;
  bool record_before_norm = false;  // the last recorded hidden state is taken before the final norm (ViT)
  int64_t project_out = 0;          // width after the final projection, 0 for none (OPT)
};

}  // namespace makar
