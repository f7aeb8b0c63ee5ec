// Mixtral (Jiang et al., 2024): Mistral with a mixture of experts in every layer.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read(const Config& config) {
  Reader r(config);
  LlamaDefaults d;
  d.theta = 1e6, d.eps = 1e-5, d.max_positions = 131072;
  ModelSpec m = read_llama_like(r, "mixtral", "Mixtral", d);
  r.windows(*m.decoder, r.integer_or("sliding_window", 0, 0, int64_t{1} << 40), "all");
  FeedForwardSpec f = m.decoder->first().feed_forward;
  f.experts = r.integer_or("num_local_experts", 8, 1, 4096);
  f.experts_per_token = r.integer_or("num_experts_per_tok", 2, 1, 4096);
  f.bias = false;
  for (BlockSpec& b : m.decoder->blocks) {
    b.attention.qkv_bias = b.attention.out_bias = false;
    b.feed_forward = f;
  }
  // transformers adds the loss only when it outputs the router logits.
  if (r.flag_or("output_router_logits", false))
    m.router_loss = r.number_or("router_aux_loss_coef", 0.001, 0, 1e3);
  r.unsupported(r.number_or("router_jitter_noise", 0.0) != 0.0f, "router_jitter_noise",
                "other than 0 is not supported");
  return r.finish(m);
}

std::vector<NameRule> replace_feed_forward(const ModelSpec& spec, const std::vector<NameRule>& experts) {
  std::vector<NameRule> rules;
  for (const NameRule& rule : llama_names(spec))
    if (rule.ours[0].find(".ffn.") == std::string::npos) rules.push_back(rule);
  rules.insert(rules.end(), experts.begin(), experts.end());
  return rules;
}

const std::string kOurs = "decoder.layers.{}.ffn.";

std::vector<NameRule> names(const ModelSpec& spec) {
  const std::string theirs = "model.layers.{}.block_sparse_moe.";
  return replace_feed_forward(spec, {{kOurs + "router", theirs + "gate"},
                                     {kOurs + "experts.{e}.gate", theirs + "experts.{e}.w1"},
                                     {kOurs + "experts.{e}.down", theirs + "experts.{e}.w2"},
                                     {kOurs + "experts.{e}.up", theirs + "experts.{e}.w3"}});
}

std::vector<NameRule> names_in_memory(const ModelSpec& spec) {
  const std::string theirs = "model.layers.{}.mlp.";
  return replace_feed_forward(
      spec, {{kOurs + "router", theirs + "gate"},
             {{kOurs + "experts.{e}.gate", kOurs + "experts.{e}.up"}, theirs + "experts.gate_up_proj", 1},
             {{kOurs + "experts.{e}.down"}, theirs + "experts.down_proj", 1}});
}

}  // namespace

const Family kMixtral = {"mixtral", "model.",        read,
                         names,     names_in_memory, {".rotary_emb.inv_freq", "lm_head.weight"}};

}  // namespace makar
