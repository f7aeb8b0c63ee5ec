// Small models of several families from built-in configs, with random weights.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/load.h"

namespace makar {

inline Json small_config(const std::string& family) {
  if (family == "gpt2")
    return Json::parse(
        R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 32, "n_layer": 2, "n_head": 4,
      "n_positions": 256, "vocab_size": 60, "bos_token_id": 1, "eos_token_id": 2, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
      "resid_pdrop": 0.0})");
  if (family == "mamba")
    return Json::parse(
        R"({"model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 24, "num_hidden_layers": 2,
      "state_size": 5, "conv_kernel": 4, "expand": 2, "time_step_rank": 3, "vocab_size": 60, "bos_token_id": 1,
      "eos_token_id": 2, "pad_token_id": 0})");
  if (family == "mamba2")
    return Json::parse(
        R"({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "hidden_size": 24, "num_hidden_layers": 2,
      "state_size": 6, "conv_kernel": 3, "expand": 2, "num_heads": 6, "head_dim": 8, "n_groups": 2, "vocab_size": 60,
      "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})");
  if (family == "deberta-v2")
    return Json::parse(
        R"({"model_type": "deberta-v2", "architectures": ["DebertaV2ForMaskedLM"], "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 256,
      "vocab_size": 60, "relative_attention": true, "position_buckets": 16, "pos_att_type": ["p2c", "c2p"],
      "share_att_key": true, "position_biased_input": false, "norm_rel_ebd": "layer_norm", "type_vocab_size": 0,
      "pad_token_id": 0, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})");
  const std::vector<std::pair<std::string, std::string>> like_llama = {
      {"llama", "Llama"},    {"mixtral", "Mixtral"},        {"gemma2", "Gemma2"},   {"gemma3_text", "Gemma3"},
      {"gpt_oss", "GptOss"}, {"qwen2_moe", "Qwen2Moe"},     {"cohere2", "Cohere2"}, {"olmo2", "Olmo2"},
      {"phi3", "Phi3"},      {"deepseek_v3", "DeepseekV3"}, {"lfm2", "Lfm2"}};
  const auto entry = std::find_if(like_llama.begin(), like_llama.end(),
                                  [&](const auto& pair) { return pair.first == family; });
  if (entry != like_llama.end()) {
    Json c = Json::parse(
        R"({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "head_dim": 8, "intermediate_size": 48, "hidden_act": "silu", "max_position_embeddings": 256, "vocab_size": 60,
      "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
      "tie_word_embeddings": false, "attention_dropout": 0.0})");
    c["model_type"] = family;
    c["architectures"] = {entry->second + "ForCausalLM"};
    if (family == "gemma3_text") c["sliding_window_pattern"] = 2, c["query_pre_attn_scalar"] = 8;
    if (family == "gemma3_text" || family == "gpt_oss" || family == "cohere2") c["sliding_window"] = 100;
    if (family == "gpt_oss") c["num_local_experts"] = 4, c["num_experts_per_tok"] = 2;
    if (family == "cohere2") c["sliding_window_pattern"] = 2, c["logit_scale"] = 0.25;
    if (family == "qwen2_moe") {
      c["num_experts"] = 4, c["num_experts_per_tok"] = 2, c["mlp_only_layers"] = {0};
      c["moe_intermediate_size"] = 24, c["shared_expert_intermediate_size"] = 40;
    }
    if (family == "phi3") {  // rotary positions that change at 64 tokens
      c["original_max_position_embeddings"] = 64;
      c["rope_scaling"] = {{"rope_type", "longrope"},
                           {"short_factor", {1.0, 1.1, 1.2, 1.3}},
                           {"long_factor", {1.0, 1.7, 2.4, 3.1}}};
    }
    if (family == "deepseek_v3") {
      c["num_key_value_heads"] = 4, c["q_lora_rank"] = 12, c["kv_lora_rank"] = 10, c["v_head_dim"] = 6;
      c["qk_nope_head_dim"] = 4, c["qk_rope_head_dim"] = 8, c["first_k_dense_replace"] = 1;
      c["n_routed_experts"] = 4, c["num_experts_per_tok"] = 2, c["n_group"] = 2, c["topk_group"] = 1;
      c["moe_intermediate_size"] = 24;
    }
    if (family == "lfm2") c["layer_types"] = {"conv", "full_attention"}, c["block_multiple_of"] = 16;
    if (family == "mixtral") c["num_local_experts"] = 4, c["num_experts_per_tok"] = 2;
    if (family == "gemma2") {
      c["tie_word_embeddings"] = true, c["hidden_activation"] = "gelu_pytorch_tanh",
      c["sliding_window"] = 100;
      c["layer_types"] = {"sliding_attention", "full_attention"};
      c["query_pre_attn_scalar"] = 8, c["attn_logit_softcapping"] = 50.0, c["final_logit_softcapping"] = 30.0;
    }
    return c;
  }
  if (family == "rnn" || family == "lstm" || family == "gru") {
    Json c = Json::parse(R"({"hidden_size": 40, "num_hidden_layers": 2, "vocab_size": 60, "bos_token_id": 1,
      "eos_token_id": 2, "pad_token_id": 0})");
    c["model_type"] = family;
    std::string name = family;
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    c["architectures"] = {name + "ForCausalLM"};
    return c;
  }
  // "lstm-general", "gru-dot-monotonic": an encoder-decoder with this attention.
  if (const size_t dash = family.find('-'); dash == 3 || dash == 4) {
    Json c = small_config(family.substr(0, dash));
    std::string name = family.substr(0, dash), attention = family.substr(dash + 1);
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    c["architectures"] = {name + "ForConditionalGeneration"};
    c["is_encoder_decoder"] = c["bidirectional"] = true, c["decoder_start_token_id"] = 2;
    if (const size_t next = attention.find('-'); next != std::string::npos)
      c["local_attention"] = attention.substr(next + 1), attention.resize(next);
    c["attention"] = attention, c["local_window"] = 3;
    return c;
  }
  if (family == "bloom")
    return Json::parse(
        R"({"model_type": "bloom", "architectures": ["BloomForCausalLM"], "hidden_size": 32, "n_layer": 2,
      "n_head": 4, "vocab_size": 60, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "hidden_dropout": 0.0,
      "attention_dropout": 0.0})");
  if (family == "bert")
    return Json::parse(
        R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 48, "hidden_act": "gelu", "vocab_size": 60, "type_vocab_size": 2,
      "max_position_embeddings": 160, "pad_token_id": 0, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})");
  if (family == "t5")
    return Json::parse(
        R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 32, "d_kv": 8, "d_ff": 48,
      "num_layers": 2, "num_heads": 4, "vocab_size": 60, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "decoder_start_token_id": 0, "pad_token_id": 0,
      "eos_token_id": 1, "dropout_rate": 0.0})");
  if (family == "bart")
    return Json::parse(
        R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"], "d_model": 32,
      "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
      "decoder_ffn_dim": 48, "max_position_embeddings": 160, "vocab_size": 60, "activation_function": "gelu",
      "decoder_start_token_id": 2, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "dropout": 0.0})");
  if (family == "llava") {
    Json c = {{"model_type", "llava"},
              {"architectures", {"LlavaForConditionalGeneration"}},
              {"image_token_index", 59}};
    c["text_config"] = small_config("llama");
    c["vision_config"] = Json::parse(
        R"({"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40, "image_size": 48,
      "patch_size": 8})");
    return c;
  }
  if (family == "clip")
    return Json::parse(
        R"({"model_type": "clip", "architectures": ["CLIPModel"], "projection_dim": 16,
      "vision_config": {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
        "image_size": 16, "patch_size": 8},
      "text_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
        "max_position_embeddings": 64, "vocab_size": 60, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}})");
  if (family == "captions") {
    Json c = {{"model_type", "vision-encoder-decoder"},
              {"architectures", {"VisionEncoderDecoderModel"}},
              {"decoder_start_token_id", 1},
              {"encoder", small_config("vit")},
              {"decoder", small_config("gpt2")}};
    c["encoder"]["image_size"] = 48;
    return c;
  }
  if (family == "vit")
    return Json::parse(
        R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 32,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "hidden_act": "gelu", "image_size": 16,
      "patch_size": 8, "num_channels": 3, "id2label": {"0": "cat", "1": "dog", "2": "fish"}})");
  check(false, "no small config for " + family);
  return Json();
}

// Random weights, larger than at initialisation so that every part has an effect.
inline LoadedModel small_model(const Json& config, uint64_t seed = 7) {
  auto loaded = make_model(Config(config, "config.json"));
  check(loaded.ok(), loaded.ok() ? "" : loaded.error().text());
  initialize(*loaded->model, seed);
  for (const auto& p : loaded->model->parameters().all())
    if (p->shape.rank() >= 2 && !p->optional)
      for (float& x : p->value.span()) x *= 8.0f;
  return std::move(*loaded);
}

}  // namespace makar
