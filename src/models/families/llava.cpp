// LLaVA (Liu et al., 2023): the projected patches of CLIP's image encoder as tokens of Llama, Mistral or
// Qwen2.
#include "models/families/pages.h"

namespace makar {
namespace {

struct LlavaText {
  const Family* family;
  const char* model;
};

// The language model of the config; empty if its family is not supported.
std::optional<LlavaText> llava_text(const Json& config) {
  const auto part = config.find("text_config");
  std::string type = "llama";
  if (part != config.end() && part->is_object() && part->contains("model_type") &&
      (*part)["model_type"].is_string())
    type = (*part)["model_type"].get<std::string>();
  for (const LlavaText& known :
       {LlavaText{&kLlama, "LlamaForCausalLM"}, LlavaText{&kMistral, "MistralForCausalLM"},
        LlavaText{&kQwen2, "Qwen2ForCausalLM"}})
    if (known.family->type == type) return known;
  return std::nullopt;
}

Result<ModelSpec> read_llava(const Config& config) {
  Reader r(config);
  const auto text = llava_text(config.json());
  if (!text) return config.field_error("text_config", "has a model_type other than llama, mistral or qwen2");
  const Config images = part_config(config, "vision_config", "");
  Reader vision(images);
  MAKAR_TRY(ModelSpec m, text->family->read(part_config(config, "text_config", text->model)));
  m.family = "llava";
  m.architecture = "LlavaForConditionalGeneration";
  m.encoder = clip_vision(vision);
  m.shared_tokens = false;
  ImageInputSpec& p = m.image_input.emplace();
  p.token = r.integer_or({"image_token_index", "image_token_id"}, 32000, 0, m.vocab - 1);
  p.layer = r.integer_or("vision_feature_layer", -2, -m.encoder->layers() - 1, -1);
  const std::string strategy = r.text_or("vision_feature_select_strategy", "default");
  r.require(strategy == "default" || strategy == "full", "vision_feature_select_strategy",
            "must be 'default' or 'full'");
  p.skip_class = strategy == "default";
  p.bias = r.flag_or("multimodal_projector_bias", true);
  p.activation = r.activation("projector_hidden_act", "gelu");
  r.adopt(vision);
  return r.finish(m);
}

std::vector<NameRule> llava_rules(const ModelSpec& spec, const char* vision_prefix) {
  std::vector<NameRule> rules = clip_vision_names(vision_prefix);
  for (NameRule rule : llava_text(spec.config)->family->names(spec)) {
    rule.tensor_name = "language_model." + rule.tensor_name;
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
