// Declarations of all family pages, and the parts that several of them share.
#pragma once
#include <algorithm>
#include <cmath>

#include "models/family.h"

namespace makar {

extern const Family kLlama, kMistral, kMixtral, kQwen2, kQwen3, kQwen2Moe, kQwen3Moe, kGemma, kGemma2,
    kGemma3;
extern const Family kPhi, kPhi3, kGptOss, kOlmo2, kOlmoe, kSmolLm3, kGranite, kCohere, kCohere2, kStableLm;
extern const Family kStarcoder2, kGlm4, kNemotron, kErnie45, kExaone4, kGpt2, kOpenAiGpt, kGptj, kGptNeo;
extern const Family kLamda, kGptBigCode, kMpt, kXglm, kNeox, kFalcon, kBloom, kOpt;
extern const Family kBert, kRoberta, kXlmRoberta, kCamembert, kDistilBert, kAlbert, kElectra, kMpnet;
extern const Family kClip, kLlava, kVisionEncoderDecoder;
extern const Family kMamba, kMamba2, kLfm2, kDebertaV2, kXlnet;
extern const Family kModernBert, kRoFormer, kDeepseekV2, kDeepseekV3;
extern const Family kT5, kMt5, kUmt5, kBart, kMbart, kM2m100, kPegasus, kMarian, kVit, kDeit;
extern const Family kRnn, kLstm, kGru, kElmo;

// The sequence classifier of a decoder: a bias-free score of the last token.
inline void last_token_classifier(Reader& r, ModelSpec& m) {
  if (m.head.kind != HeadKind::kSequenceClass) return;
  m.head.labels = r.labels();
  m.head.pool = PoolKind::kLast;
  m.head.classifier_bias = false;
}

// GPT-2 and similar families: LayerNorm, learned positions, a plain feed-forward, biases.
ModelSpec read_gpt_like(Reader& r, const char* family, const char* model);

// Llama and similar families: RMSNorm, rotary positions, gated feed-forward without biases. Each page changes
// what differs.
struct LlamaDefaults {
  double theta = 10000.0;
  double eps = 1e-6;
  int64_t max_positions = 2048;
  const char* activation = "silu";  // "": the page reads it
  int64_t head_dim = 0;             // 0: width / heads
  double rotary_share = 1.0;        // rotated share of a head
};
ModelSpec read_llama_like(Reader& r, const char* family, const char* model, const LlamaDefaults& defaults);
std::vector<NameRule> llama_names(const ModelSpec& spec);
// Qwen2, or Qwen3 if `qwen3`.
ModelSpec read_qwen_like(Reader& r, const char* family, const char* model, bool qwen3);
// Each expert's tensors below "mlp.experts".
std::vector<NameRule> expert_names();
// One tensor of all experts below "mlp.experts", as transformers has them in memory.
std::vector<NameRule> fused_expert_names();
inline std::vector<std::string> llama_ignored() { return {".rotary_emb.inv_freq", "lm_head.weight"}; }

// BERT's encoder body and heads, shared by similar families.
ModelSpec read_bert_like(Reader& r, const char* family, const char* model);
std::vector<NameRule> bert_body_names(const std::string& file_prefix);
GgufSection bert_gguf(const char* model);

// BART's stacks, shared by similar encoder-decoders.
struct BartKind {
  const char *family, *model;
  bool pre_norm;        // norms before the sublayers and at the end of a stack
  bool embedding_norm;  // a norm after the embeddings
  PositionKind positions;
  bool logits_bias;  // a fixed bias of the logits in the files
};
ModelSpec read_bart_like(Reader& r, const BartKind& kind, int64_t bos, int64_t eos, int64_t pad);
std::vector<NameRule> bart_names(const ModelSpec& spec);
Family bart_family(const char* type, Result<ModelSpec> (*read)(const Config&), NameTable names);
// The layers of models that come from fairseq.
std::vector<NameRule> fairseq_layer_names(const std::string& layer, const std::string& file_layer);

// T5, shared with mT5 and UMT5.
ModelSpec read_t5_like(Reader& r, const char* family, const char* model);
GgufSection t5_gguf(bool (*matches)(const GgufFields&));
Family t5_family(const char* type, Result<ModelSpec> (*read)(const Config&), const GgufSection* gguf);

// GGUF sections in files of their own.
const GgufSection& mamba_gguf(bool mamba2);
const GgufSection& deepseek_gguf(bool v3);
const GgufSection& modernbert_gguf();
std::vector<NameRule> deepseek_gguf_names(const ModelSpec& m);
std::vector<NameRule> deepseek_joined_names(const ModelSpec& m);

// The attention of a recurrent decoder.
void recurrent_attention(Reader& r, ModelSpec& m);

// Gemma, shared by its three generations.
ModelSpec read_gemma_like(Reader& r, const char* family, const char* model, double theta, int64_t positions);
std::vector<NameRule> gemma_gguf_names(const ModelSpec& spec);

// CLIP's tower for images, shared with LLaVA.
StackSpec clip_vision(Reader& r);
std::vector<NameRule> clip_vision_names(const std::string& file_prefix);
// The config of a part of a model, as if it were a model of its own with this architecture.
Config part_config(const Config& config, const char* key, const char* architecture);

// ViT's body, shared with DeiT.
ModelSpec read_vit_like(Reader& r, const char* family, const char* model, bool distillation);

}  // namespace makar
