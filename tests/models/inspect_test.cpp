// inspect on models with known sizes.
#include "models/inspect.h"

#include <gtest/gtest.h>

#include "models/small_models.h"
#include "scratch_folder.h"

namespace makar {
namespace {

const StructureNode* find(const StructureNode& node, const std::string& name) {
  for (const auto& c : node.children)
    if (c.name == name) return &c;
  return nullptr;
}

Inspection inspect_config(const Json& config, const InspectOptions& options = {}) {
  ScratchFolder folder;
  folder.write("config.json", config.dump());
  auto inspection = inspect_model(folder.path(), options);
  check(inspection.ok(), inspection.ok() ? "" : inspection.error().text());
  EXPECT_NE(inspection->warning.find("has neither model.safetensors"), std::string::npos);
  return *inspection;
}

TEST(Inspect, Gpt2HasThePublishedSize) {
  const Json config = Json::parse(
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12,
    "n_head": 12, "n_positions": 1024, "vocab_size": 50257})");
  const Inspection inspection = inspect_config(config);
  EXPECT_EQ(inspection.parameters, 124'439'808);
  EXPECT_EQ(inspection.active, inspection.parameters);
  EXPECT_EQ(inspection.embedding, (50257 + 1024) * 768);
  EXPECT_EQ(inspection.cache_values, 12 * 2 * 768);
  EXPECT_EQ(inspection.context, 1024);
  ASSERT_EQ(inspection.costs.size(), 1u);
  const double products = 2.0 * (12 * 12 * 768 * 768 + 50257.0 * 768);
  EXPECT_EQ(inspection.costs[0].products, products);
  EXPECT_EQ(inspection.costs[0].attention, 12 * 4.0 * 768 * 1024);
  EXPECT_EQ(inspect_config(config, {100}).costs[0].attention, 12 * 4.0 * 768 * 100);
  EXPECT_EQ(inspection.structure.parameters, inspection.parameters);
  const StructureNode* body = find(inspection.structure, "transformer");
  ASSERT_NE(body, nullptr);
  const StructureNode* layers = find(*body, "h.0..11");
  ASSERT_NE(layers, nullptr);
  EXPECT_EQ(layers->repeat, 12);
  EXPECT_EQ(layers->parameters, 7'087'872);
  EXPECT_EQ(inspection.memory[0].bytes, 4.0 * 124'439'808);
  EXPECT_EQ(inspection.memory.back().name, "q4_0");
  EXPECT_EQ(inspection.memory.back().bytes, 124'439'808 * 18.0 / 32);
}

TEST(Inspect, MixtralCountsOnlySelectedExperts) {
  const Inspection inspection = inspect_config(
      Json::parse(R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "num_experts_per_tok": 2, "vocab_size": 32000, "max_position_embeddings": 32768, "tie_word_embeddings": false})"));
  EXPECT_EQ(inspection.parameters, 46'702'792'704);
  EXPECT_EQ(inspection.active, 12'879'925'248);
  // Every active weight except the embedding and the norms is used once per token.
  EXPECT_EQ(inspection.costs[0].products,
            2.0 * static_cast<double>(inspection.active - 32000 * 4096 - 65 * 4096));
}

// Sizes that the literature prints, from configs alone.
TEST(Inspect, KnownModelsHaveTheirPublishedSizes) {
  const Inspection gpt3 = inspect_config(Json::parse(
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 12288, "n_layer": 96,
    "n_head": 96, "n_positions": 2048, "vocab_size": 50257})"));
  constexpr int64_t kLayers = 96, kWidth = 12288;
  EXPECT_EQ(12 * kLayers * kWidth * kWidth, 173'946'175'488);  // the matrices of the layers
  EXPECT_EQ(gpt3.parameters,
            kLayers * (12 * kWidth * kWidth + 13 * kWidth) + 2 * kWidth + (50257 + 2048) * kWidth);
  EXPECT_EQ(gpt3.parameters, 174'604'259'328);
  const Inspection bert = inspect_config(Json::parse(
      R"({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 768, "num_hidden_layers": 12,
    "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2})"));
  EXPECT_EQ(bert.parameters, 109'482'240);
  const Inspection deit = inspect_config(
      Json::parse(R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 384,
    "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536, "image_size": 224, "patch_size": 16, "num_channels": 3,
    "num_labels": 1000})"));
  const auto linear_parameters = [](int64_t in, int64_t out) { return in * out + out; };
  constexpr int64_t d = 384;
  EXPECT_EQ(deit.parameters, 12 * (linear_parameters(d, 1152) + linear_parameters(d, d) +
                                   linear_parameters(d, 1536) + linear_parameters(1536, d) + 4 * d) +
                                 linear_parameters(3 * 16 * 16, d) + d + 197 * d + 2 * d +
                                 linear_parameters(d, 1000));
  EXPECT_EQ(deit.parameters, 22'050'664);
}

TEST(Inspect, CostsIncludeWindowsAndCrossAttention) {
  const Inspection gemma = inspect_config(small_config("gemma2"), {250});
  EXPECT_EQ(gemma.costs[0].attention, 4.0 * 32 * (100 + 250));
  const Inspection t5 = inspect_config(small_config("t5"), {10});
  ASSERT_EQ(t5.costs.size(), 2u);
  EXPECT_EQ(t5.costs[0].stack, "encoder");
  EXPECT_EQ(t5.costs[0].attention, 2 * 4.0 * 32 * 10);
  EXPECT_EQ(t5.costs[1].attention, 2 * 2 * 4.0 * 32 * 10);
  EXPECT_EQ(t5.cross_cache_values, 2 * 2 * 32);
  // Cross-attention keys and values are computed from encoder tokens.
  EXPECT_EQ(t5.costs[0].products, 2.0 * 2 * (4 * 32 * 32 + 3 * 32 * 48 + 2 * 32 * 32));
}

TEST(Inspect, MatchesTheFilesOfEveryFixture) {
  int model_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(MAKAR_TEST_GOLDEN) + "/models")) {
    SCOPED_TRACE(entry.path().string());
    const auto inspection = inspect_model(entry.path().string());
    ASSERT_TRUE(inspection.ok()) << inspection.error().text();
    const auto loaded = load_model(entry.path().string());
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(inspection->parameters, loaded->model->parameters().count());
    EXPECT_TRUE(inspection->warning.empty());
    EXPECT_EQ(inspection->dtypes.size(), 1u);
    const Json json = to_json(*inspection);
    EXPECT_EQ(json["parameters"]["total"], inspection->parameters);
    EXPECT_EQ(json["architecture"], loaded->model->spec().architecture);
    EXPECT_TRUE(json["structure"]["children"].is_array());
    ++model_count;
  }
  EXPECT_GE(model_count, 20);
}

TEST(Inspect, ReportsTheTypesOfTheFile) {
  const LoadedModel model = small_model(small_config("llama"));
  for (const auto& p : model.model->parameters().all())
    if (p->shape.rank() == 2) p->value = p->value.to(DType::kBF16);
  ScratchFolder folder;
  ASSERT_TRUE(save_model(folder.path(), *model.model, *model.family).ok());
  const auto inspection = inspect_model(folder.path());
  ASSERT_TRUE(inspection.ok());
  ASSERT_EQ(inspection->dtypes.size(), 2u);
  EXPECT_EQ(inspection->dtypes[0].first, "bf16");
  EXPECT_EQ(inspection->dtypes[1], (std::pair<std::string, int64_t>("f32", 5 * 32)));
}

}  // namespace
}  // namespace makar
