// The explicit description of a stack of layers: everything that distinguishes model families. Each family
// fills these structs from its config.json; one stack implementation runs all of them.
#pragma once
#include <algorithm>
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
  float offset = 0.0f;  // 1 if the weight is stored as w - 1
};

enum class NormPosition {
  kPre,       // x + f(norm(x))
  kPost,      // norm(x + f(x))
  kSandwich,  // x + norm'(f(norm(x)))
  kAfter,     // x + norm(f(x))
};

enum class BiasKind { kNone, kAlibi, kT5 };

// Norms of queries and keys before attention.
enum class QkNorm {
  kNone,
  kHead,      // over each head, with the same weights for all heads (Qwen 3)
  kEachHead,  // over each head, with separate weights per head (Cohere)
  kSeparate,  // as kEachHead, with one parameter per head (StableLM)
  kWhole,     // over all heads together (OLMo 2)
};

// Queries, keys and values through projections of low rank (DeepSeek V2). The rotated dimensions of a key are
// the same for all heads.
struct LatentSpec {
  int64_t query_rank = 0;  // 0: queries are computed from the input
  int64_t rank = 0;        // of keys and values
  int64_t value_dim = 0;   // per head, at most head_dim
  float norm_eps = 1e-6f;  // of the norms after the low-rank projections; independent of the stack's
};

// Scores that depend on the content and the distance together, from one table of distances.
struct RelativeSpec {
  enum class Kind {
    kDisentangled,  // DeBERTa (He et al., 2021): scores of queries with keys of distances, and of keys with
                    // queries of distances
    kXl,            // Transformer-XL (Dai et al., 2019) with segments, as in XLNet
  } kind = Kind::kDisentangled;
  int64_t span = 0;     // kDisentangled: distances (or buckets of distances) on each side
  int64_t buckets = 0;  // > 0: distances above half of it share buckets, by their logarithm
  int64_t max_distance = 0;
  bool norm = false;             // the table is normalised
  bool own_projections = false;  // distances have their own key and query projections, not the content's
  bool content_to_position = true, position_to_content = true;
};

struct AttentionSpec {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  bool causal = true;
  int64_t window = 0;  // a token attends to tokens at a distance of less than `window`; 0: to all
  float scale = 1.0f;
  float soft_cap = 0.0f;
  float dropout = 0.0f;
  bool qkv_bias = false, out_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  float clip = 0.0f;         // > 0: q, k and v are limited to [-clip, clip]
  bool sink_logits = false;  // a learned logit per head that only adds to the softmax's denominator (gpt-oss)
  BiasKind bias = BiasKind::kNone;
  float alibi_scale = 1.0f;
  bool alibi_rounded = false;  // rounded to bf16, by key index (Falcon)
  int64_t t5_buckets = 32, t5_max_distance = 128;
  bool bias_per_layer = false;  // T5's table is not shared by the layers (UMT5)
  std::optional<ops::RopeOptions> rope;
  bool rope_values = false;              // values are rotated too (RoFormer's option)
  std::optional<LatentSpec> latent;      // with rope
  std::optional<RelativeSpec> relative;  // encoders only
};

struct FeedForwardSpec {
  int64_t width = 0;  // 0: none
  Activation activation = Activation::kGelu;
  bool gated = false;
  bool squared = false;     // the activation is squared (Nemotron)
  float sharpness = 1.0f;   // act(s x) / s: with SiLU and 1.702 the quick GELU of CLIP
  float gate_limit = 0.0f;  // > 0: clamped gates (gpt-oss), see FeedForward
  bool bias = false;
  int64_t experts = 0, experts_per_token = 0;  // 0: dense
  bool router_bias = false;
  // Sigmoids instead of a softmax; a bias buffer affects only the choice (DeepSeek V3).
  bool sigmoid_router = false;
  int64_t expert_groups = 1, groups_per_token = 1;  // experts are chosen from the best groups
  float routed_scale = 1.0f;                        // multiplies the weights of the chosen experts
  bool normalized = true;                           // the weights of the chosen experts sum to 1
  int64_t shared_width = 0;                         // > 0: one more expert for all tokens
  bool shared_bias = false;
  bool shared_gate = false;  // its output is scaled by a sigmoid gate (Qwen 2)
};

enum class CellKind { kRnn, kLstm, kGru };

// A recurrent layer. The cache holds its state after every token as the values of `BlockSpec::attention`,
// which is as wide as the state.
struct RecurrentSpec {
  CellKind cell = CellKind::kLstm;
  int64_t hidden = 0;          // per direction
  bool bidirectional = false;  // the outputs of both directions are concatenated
  bool separate = false;       // each direction reads its own half of the input (ELMo)
  bool residual = false;       // the input is added to the output
  // Additive attention to an encoder is an input of the cell (Bahdanau et al., 2015).
  bool reads_source = false;
};

// Attention of a recurrent decoder to the outputs of its encoder (Luong et al., 2015).
struct AlignmentSpec {
  enum class Score { kDot, kGeneral, kConcat, kLocation, kAdditive } score = Score::kGeneral;
  enum class Range { kGlobal, kMonotonic, kPredictive } range = Range::kGlobal;
  int64_t half_window = 10;  // kMonotonic, kPredictive: source positions on each side of the centre
  int64_t positions = 0;     // kLocation: maximum length of a source
};

// A layer that carries a state from token to token, instead of attention.
struct MixerSpec {
  enum class Kind {
    kShortConv,  // a gated convolution over the last tokens (LFM2)
    kMamba,      // the selective scan with a state per channel (Gu and Dao, 2023)
    kMamba2,     // the selective scan in heads (Dao and Gu, 2024)
  } kind = Kind::kMamba;
  int64_t inner = 0;              // channels
  int64_t taps = 4;               // of the convolution
  int64_t states = 0;             // per channel; 0: none (kShortConv)
  int64_t dt_rank = 0;            // kMamba
  int64_t heads = 1, groups = 1;  // kMamba2
  bool bias = false, conv_bias = true;
  float norm_eps = 1e-5f;  // kMamba2
  int64_t conv_channels() const { return kind == Kind::kMamba2 ? inner + 2 * groups * states : inner; }
  // Floats of one sequence's state: the convolution's inputs, then the states.
  int64_t conv_state() const { return (taps - 1) * conv_channels(); }
  int64_t state_size() const { return conv_state() + inner * states; }
};

// One layer. The layers of a stack may differ in every field.
struct BlockSpec {
  NormPosition norm_position = NormPosition::kPre;
  bool parallel = false;             // x + attention(norm1(x)) + feed_forward(norm2(x))
  bool shared_norm = false;          // parallel, with one norm for both
  bool residual_after_norm = false;  // the residual is taken after the norm (BLOOM's option)
  bool attention_norm = true;        // false: no norm before attention (ModernBERT's first layer)
  float residual_scale = 1.0f;       // multiplies the output of a sublayer (Granite)
  AttentionSpec attention;
  std::optional<MixerSpec> mixer;      // instead of attention
  std::optional<AttentionSpec> cross;  // cross-attention to an encoder
  FeedForwardSpec feed_forward;
  std::optional<RecurrentSpec> recurrent;  // instead of attention and feed-forward
  // Instead of attention and feed-forward, or as an input of `recurrent`.
  std::optional<AlignmentSpec> alignment;
  float dropout = 0.0f;
};

// Both sinusoidal kinds have sines in the first half and cosines in the second; fairseq's frequencies end at
// 1 / 10000 exactly.
enum class PositionKind { kNone, kLearned, kSinusoidal, kFairseq };

struct PatchSpec {
  int64_t image_height = 0, image_width = 0, patch = 0, channels = 0;
  bool distillation_token = false;
  bool bias = true;
};

struct EmbeddingSpec {
  int64_t vocab = 0;
  int64_t width = 0;  // table width; a projection follows if it differs from the stack's
  bool project = false;
  bool project_bias = false;
  bool project_early = false;  // project before adding positions, which then have the stack's width (OPT)
  int64_t padding = -1;        // token whose row gets no gradient (PyTorch's padding_idx)
  float scale = 1.0f;          // multiplies token embeddings
  int64_t types = 0;           // rows of the token type table; 0: none
  PositionKind positions = PositionKind::kNone;
  int64_t max_positions = 0;     // rows of the table
  int64_t position_offset = 0;   // added to every position before lookup
  bool count_positions = false;  // positions count tokens without padding, not columns (RoBERTa, OPT)
  bool norm = false;
  bool doubled = false;              // each row twice, side by side: one for each direction (ELMo)
  std::optional<PatchSpec> patches;  // images instead of tokens
  float dropout = 0.0f;
};

// Added to the output of the first layer: a convolution over the stack's input, then a norm of the sum
// (DeBERTa V2).
struct ConvolutionSpec {
  int64_t taps = 3;  // odd
  Activation activation = Activation::kTanh;
};

// What a stack returns: its last layer, or a mix of its embedding and all layers.
enum class ScalarMixKind { kNone, kMean, kLearned };

struct StackSpec {
  std::string name;  // "encoder" or "decoder": the prefix of its parameters
  int64_t width = 0;
  NormSpec norm;                  // of the embedding, the blocks and the end of the stack
  std::vector<BlockSpec> blocks;  // one per layer
  // > 0: the file has a table of sines and cosines with one row per position (RoFormer).
  int64_t rotary_rows = 0;
  // ALBERT: every `inner` consecutive layers form a step, and the steps share `groups` sets of weights.
  // groups = 0: no sharing.
  int64_t groups = 0, inner = 1;
  std::optional<ConvolutionSpec> convolution;
  EmbeddingSpec embedding;
  bool final_norm = true;
  bool record_outputs = false;      // hidden states are the blocks' outputs, then the final norm's (Mamba)
  bool record_before_norm = false;  // the last recorded hidden state is taken before the final norm (ViT)
  ScalarMixKind mix = ScalarMixKind::kNone;
  int64_t project_out = 0;  // width after the final projection, 0 for none (OPT)

  int64_t layers() const { return static_cast<int64_t>(blocks.size()); }
  // The index of a layer's weights.
  int64_t weights_of(int64_t layer) const {
    return groups > 0 ? layer / inner * groups / (layers() / inner) * inner + layer % inner : layer;
  }
  int64_t distinct_layers() const { return groups > 0 ? groups * inner : layers(); }
  const BlockSpec& first() const { return blocks.front(); }
  // The first routed feed-forward; null if all layers are dense.
  const FeedForwardSpec* routed() const {
    for (const BlockSpec& b : blocks)
      if (b.feed_forward.experts > 0) return &b.feed_forward;
    return nullptr;
  }
  bool has_window() const {
    return std::any_of(blocks.begin(), blocks.end(),
                       [](const BlockSpec& b) { return b.attention.window > 0; });
  }
};

}  // namespace makar
