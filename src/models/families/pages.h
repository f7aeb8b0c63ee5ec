// Declarations of all family pages, and the parts that several of them share.
#pragma once
#include <cmath>

#include "models/family.h"

namespace makar {

extern const Family kGpt2, kLlama, kMistral, kMixtral, kQwen2, kQwen3, kGemma2, kNeox, kFalcon, kBloom, kOpt;
extern const Family kBert, kRoberta, kDistilBert, kAlbert, kT5, kBart, kMarian, kVit, kDeit;

// The sequence classifier of a decoder: a bias-free score of the last token.
inline void last_token_classifier(Reader& r, ModelSpec& m) {
  if (m.head.kind != HeadKind::kSequenceClass) return;
  m.head.labels = r.labels();
  m.head.pool = PoolKind::kLast;
  m.head.classifier_bias = false;
}

// Llama and similar families: RMSNorm, rotary positions, gated feed-forward without biases. Each page changes
// what differs.
struct LlamaDefaults {
  double theta = 10000.0;
  double eps = 1e-6;
  int64_t max_positions = 2048;
  const char* activation = "silu";
};
ModelSpec read_llama_like(Reader& r, const char* family, const char* model, const LlamaDefaults& defaults);
std::vector<NameRule> llama_names(const ModelSpec& spec);

// BERT's encoder body and heads, shared by similar families.
ModelSpec read_bert_like(Reader& r, const char* family, const char* model);
std::vector<NameRule> bert_body_names(const std::string& prefix);

// ViT's body, shared with DeiT.
ModelSpec read_vit_like(Reader& r, const char* family, const char* model, bool distillation);

}  // namespace makar
