// LLaVA (Liu et al., 2023): the images of CLIP, projected, as tokens of Llama.
#include "models/families/pages.h"

namespace makar {
namespace {

Result<ModelSpec> read_llava(const Config& config) {
  Reader r(config);
  const Config words = part_config(config, "text_config", "LlamaForCausalLM"),
               images = part_config(config, "vision_config", "");
  Reader text(words), vision(images);
  r.unsupported(text.text_or("model_type", "llama") != "llama", "text_config", "other than llama");
  ModelSpec m = read_llama_like(text, "llava", "Llama", {});
  m.architecture = "LlavaForConditionalGeneration";
  m.encoder = clip_vision(vision);
  m.shared_tokens = false;
  ImageInputSpec& p = m.image_input.emplace();
  p.token = r.integer_or({"image_token_index", "image_token_id"}, 32000, 0, m.vocab - 1);
  p.layer = r.integer_or("vision_feature_layer", -2, -m.encoder->layers() - 1, -1);
  const std::string kept = r.text_or("vision_feature_select_strategy", "default");
  r.require(kept == "default" || kept == "full", "vision_feature_select_strategy",
            "must be 'default' or 'full'");
  p.skip_class = kept == "default";
  p.bias = r.flag_or("multimodal_projector_bias", true);
  p.activation = r.activation("projector_hidden_act", "gelu");
  r.adopt(text);
  r.adopt(vision);
  return r.finish(m);
}

std::vector<NameRule> llava_rules(const ModelSpec& spec, const char* tower) {
  std::vector<NameRule> rules = clip_vision_names(tower);
  for (NameRule rule : llama_names(spec)) {
    rule.theirs = "language_model." + rule.theirs;
    rules.push_back(rule);
  }
  rules.insert(rules.end(), {{"head.project1", "multi_modal_projector.linear_1"},
                             {"head.project2", "multi_modal_projector.linear_2"}});
  return rules;
}

std::vector<NameRule> llava_names(const ModelSpec& spec) { return llava_rules(spec, "vision_tower."); }

// Files of transformers before version 5.
std::vector<NameRule> older_llava_names(const ModelSpec& spec) {
  return llava_rules(spec, "vision_tower.vision_model.");
}

}  // namespace

const Family kLlava = {.type = "llava",
                       .prefix = "",
                       .read = read_llava,
                       .names = llava_names,
                       .names_in_memory = older_llava_names,
                       .ignored = {"embeddings.position_ids", ".rotary_emb.inv_freq"}};

}  // namespace makar
