// Pruning: which weights become zero, the compensation of SparseGPT against exact least squares, and reduced
// models against models computed with the removed parts set to zero.
#include "quant/prune.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "nn/block_parts.h"
#include "quant/choose_kept_parts.h"
#include "quant/reduce.h"

namespace makar {
namespace {

const std::string kModels = std::string(MAKAR_TEST_GOLDEN) + "/models/";

Tensor numbers(const Shape& shape, uint64_t seed) {
  Tensor out = Tensor::empty(shape);
  const Rng rng(seed, Purpose::kInit);
  for (int64_t i = 0; i < out.count(); ++i) out.f32()[i] = rng.normal(static_cast<uint64_t>(i));
  return out;
}

int64_t zeros_in(const float* x, int64_t n) { return std::count(x, x + n, 0.0f); }

TEST(Prune, PatternsAreParsed) {
  EXPECT_EQ(parse_pattern("2:4", "pattern")->zeros, 2);
  for (const char* bad :
       {"", "2", "2:", ":4", "0:4", "4:4", "5:4", "2:65", "2:4:8", "-1:4", "a:b", "2:99999999999999999999"})
    EXPECT_FALSE(parse_pattern(bad, "pattern").ok()) << bad;
}

// Worked by hand: |w| is 4 1 3 2 and, times the inputs' sizes 1 10 1 1, 4 10 3 2.
TEST(Prune, RemovesTheSmallestByMagnitudeOrByEffect) {
  ThreadPool pool(1);
  const std::vector<float> w = {4, -1, 3, -2}, wanda = {1, 10, 1, 1}, ones = {1, 1, 1, 1};
  Tensor a = Tensor::from({1, 4}, std::span<const float>(w)), b = a.clone(), c = a.clone();
  zero_smallest(pool, a, ones, {0.5}, false);
  EXPECT_EQ(std::vector<float>(a.f32(), a.f32() + 4), (std::vector<float>{4, 0, 3, 0}));
  zero_smallest(pool, b, wanda, {0.5}, true);
  EXPECT_EQ(std::vector<float>(b.f32(), b.f32() + 4), (std::vector<float>{4, -1, 0, 0}));
  zero_smallest(pool, c, ones, {0.5, 1, 2}, true);
  EXPECT_EQ(std::vector<float>(c.f32(), c.f32() + 4), (std::vector<float>{4, 0, 3, 0}));
}

TEST(Prune, EveryGroupHasItsZeros) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    Tensor w = numbers({5, 32}, 1);
    zero_smallest(pool, w, std::vector<float>(32, 1.0f), {0.5, 2, 4}, true);
    for (int64_t at = 0; at < w.count(); at += 4) EXPECT_EQ(zeros_in(w.f32() + at, 4), 2);
    Tensor v = numbers({5, 32}, 2), h = Tensor::zeros({32, 32});
    for (int64_t i = 0; i < 32; ++i) h.f32()[i * 33] = 1;
    prune_compensated(pool, v, h, {0.5, 2, 4});
    for (int64_t at = 0; at < v.count(); at += 4) EXPECT_EQ(zeros_in(v.f32() + at, 4), 2);
  }
}

// With independent inputs of equal size nothing can be compensated: the same as magnitude per row.
TEST(Prune, IndependentInputsNeedNoCompensation) {
  ThreadPool pool(2);
  Tensor w = numbers({4, 16}, 3), v = w.clone(), h = Tensor::zeros({16, 16});
  for (int64_t i = 0; i < 16; ++i) h.f32()[i * 17] = 2;
  prune_compensated(pool, w, h, {0.5});
  zero_smallest(pool, v, std::vector<float>(16, 1.0f), {0.5}, true);
  for (int64_t i = 0; i < w.count(); ++i) EXPECT_NEAR(w.f32()[i], v.f32()[i], 1e-6);
}

double output_error(const Tensor& a, const Tensor& b, const Tensor& h) {
  const int64_t n = a.dim(1);
  double out = 0;
  for (int64_t r = 0; r < a.dim(0); ++r)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        out += (a.f32()[r * n + i] - b.f32()[r * n + i]) * static_cast<double>(h.f32()[i * n + j]) *
               (a.f32()[r * n + j] - b.f32()[r * n + j]);
  return out;
}

// Two columns, the first is removed: the least squares solution for the second is w2 + w1 h12 / h22.
TEST(Prune, CompensationIsTheLeastSquaresSolution) {
  ThreadPool pool(1);
  const std::vector<float> gram = {1.0f, 0.8f, 0.8f, 2.0f}, start = {0.1f, 1.0f};
  const Tensor h = Tensor::from({2, 2}, std::span<const float>(gram));
  Tensor w = Tensor::from({1, 2}, std::span<const float>(start));
  prune_compensated(pool, w, h, {0.5});
  EXPECT_EQ(w.f32()[0], 0.0f);
  const double damp = 0.01 * 1.5;  // the damping of x^T x
  EXPECT_NEAR(w.f32()[1], 1.0 + 0.1 * 0.8 / (2.0 + damp), 1e-6);
}

TEST(Prune, CompensationReducesTheError) {
  const int64_t n = 24;
  const Tensor x = numbers({200, n}, 4), mix = numbers({n, n}, 5);
  Tensor inputs = Tensor::zeros({200, n}), h = Tensor::zeros({n, n});
  for (int64_t r = 0; r < 200; ++r)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < n; ++k) inputs.f32()[r * n + i] += x.f32()[r * n + k] * mix.f32()[k * n + i];
  for (int64_t r = 0; r < 200; ++r)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        h.f32()[i * n + j] += inputs.f32()[r * n + i] * inputs.f32()[r * n + j] / 200;
  std::vector<float> sizes;
  for (int64_t i = 0; i < n; ++i) sizes.push_back(std::sqrt(h.f32()[i * n + i]));
  const Tensor w = numbers({8, n}, 6);
  for (const SparsityPattern& pattern : {SparsityPattern{0.5}, SparsityPattern{0.5, 2, 4}}) {
    ThreadPool one(1), two(2);
    Tensor magnitude = w.clone(), wanda = w.clone(), compensated = w.clone(), with_two_threads = w.clone();
    zero_smallest(one, magnitude, std::vector<float>(static_cast<size_t>(n), 1.0f), pattern, true);
    zero_smallest(one, wanda, sizes, pattern, true);
    prune_compensated(one, compensated, h, pattern);
    prune_compensated(two, with_two_threads, h, pattern);
    EXPECT_LT(output_error(w, compensated, h), 0.7 * output_error(w, wanda, h));
    EXPECT_LT(output_error(w, compensated, h), 0.7 * output_error(w, magnitude, h));
    EXPECT_EQ(0, std::memcmp(compensated.f32(), with_two_threads.f32(), compensated.bytes()));
  }
}

TEST(Prune, AllMethodsReachTheShare) {
  for (const char* name : {"llama", "gpt2", "mixtral", "roberta-mlm"}) {
    for (const PruneMethod method : {PruneMethod::kMagnitude, PruneMethod::kWanda, PruneMethod::kSparseGpt}) {
      const LoadedModel model = *load_model(kModels + name, {true});
      PruneOptions o;
      o.method = method;
      for (int64_t i = 0; i < 96; ++i) o.ids.push_back((i * 7 + i * i) % 90 + 5);
      o.window = 32;
      CpuDevice device(2);
      ThreadPool pool(2);
      ASSERT_TRUE(prune_model(model, o, device, pool).ok());
      double zeros = 0, all = 0;
      model.model->each_linear([&](const std::string& at, Linear& linear) {
        if (at.find(".layers.") == std::string::npos || at.ends_with(".router")) return;
        zeros += static_cast<double>(zeros_in(linear.weight()->value.f32(), linear.weight()->value.count()));
        all += static_cast<double>(linear.weight()->value.count());
      });
      EXPECT_NEAR(zeros / all, 0.5, 0.01) << name;
      EXPECT_GT(sparsity_of(*model.model), 0.3) << name;
    }
  }
}

Tensor hidden_of(const Model& model) {
  CpuDevice device(1);
  Context ctx{device};
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source.add({5, 9, 17, 33, 2, 8});
  return model.hidden(f, inputs);
}

TEST(Reduce, KeptLayersAreSpreadEvenly) {
  EXPECT_EQ(spread_layers(12, 4), (std::vector<int64_t>{0, 4, 7, 11}));
  EXPECT_EQ(spread_layers(6, 6), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(spread_layers(5, 1), (std::vector<int64_t>{0}));
}

// Removed channels and heads give the same as zeros in their place.
TEST(Reduce, RemovedPartsActLikeZeros) {
  for (const char* name : {"llama", "qwen2", "lfm2"}) {
    const LoadedModel original = *load_model(kModels + name, {true});
    const StackSpec& s = original.model->spec().main();
    const AttentionSpec& a = s.first().attention;
    CpuDevice device(1);
    const Reduction reduction = *choose_kept_parts(
        original, {0, a.kv_heads - 1, s.first().feed_forward.width / 2, {}, 32}, device, name);
    const LoadedModel small = *reduce_model(original, reduction, name);
    EXPECT_LT(small.model->parameters().count(), original.model->parameters().count());
    for (size_t l = 0; l < reduction.layers.size(); ++l) {
      const auto clear = [&](const char* matrix, const std::vector<int64_t>& keep, int64_t size) {
        const Tensor w = original.model->parameters()
                             .find(fmt::format("decoder.layers.{}.{}.weight", reduction.layers[l], matrix))
                             ->value;
        for (int64_t i = 0; i < w.count(); ++i)
          if (!std::count(keep.begin(), keep.end(), i % w.dim(1) / size)) w.f32()[i] = 0;
      };
      clear("ffn.down", reduction.channels[l], 1);
      if (reduction.groups[l].empty()) continue;  // a convolution
      clear("attn.o", reduction.groups[l], a.heads / a.kv_heads * a.head_dim);
    }
    const Tensor expected = hidden_of(*original.model), actual = hidden_of(*small.model);
    for (int64_t i = 0; i < expected.count(); ++i)
      EXPECT_NEAR(actual.f32()[i], expected.f32()[i], 1e-5) << name;
  }
}

// A removed layer gives the same as one that adds nothing to the residual stream.
TEST(Reduce, RemovedLayersActLikeLayersThatAddNothing) {
  for (const char* name : {"llama", "gpt2", "qwen3", "lfm2", "mamba", "mamba2", "cohere2", "smollm3",
                           "gpt-neox", "gpt-neo", "bloom-alibi", "gemma2", "phi3", "deepseek-v2"}) {
    const LoadedModel original = *load_model(kModels + name, {true});
    std::vector<int64_t> kept;
    for (int64_t l = 1; l < original.model->spec().main().layers(); ++l) kept.push_back(l);
    const auto small = reduce_model(original, {kept, {}, {}}, name);
    ASSERT_TRUE(small.ok()) << name << ": " << small.error().message;
    int64_t cleared = 0;
    for (const char* last : {"attn.o", "ffn.down", "mixer.out"})
      for (const char* part : {"weight", "bias"}) {
        const Parameter* p =
            original.model->parameters().find(fmt::format("decoder.layers.0.{}.{}", last, part));
        if (!p) continue;
        std::fill_n(p->value.f32(), p->value.count(), 0.0f);
        ++cleared;
      }
    EXPECT_GT(cleared, 0) << name;
    const Tensor expected = hidden_of(*original.model), actual = hidden_of(*small->model);
    for (int64_t i = 0; i < expected.count(); ++i)
      EXPECT_NEAR(actual.f32()[i], expected.f32()[i], 1e-5) << name;
  }
}

TEST(Reduce, LayersOfManyFamiliesAreRemoved) {
  for (const char* name : {"llama", "gpt2", "qwen3", "gemma2-three-layers", "bloom-alibi", "opt-clean",
                           "roberta-mlm", "gpt-neox", "mixtral"}) {
    const LoadedModel original = *load_model(kModels + name, {true});
    const auto small = reduce_model(original, {{0}, {}, {}}, name);
    ASSERT_TRUE(small.ok()) << name << ": " << small.error().message;
    EXPECT_EQ(small->model->spec().main().layers(), 1) << name;
    hidden_of(*small->model);
  }
}

// GPT-2's config has no size of a head, and ALBERT's layers share weights: refused, with the reason.
TEST(Reduce, SizesThatAConfigCannotExpressAreRefused) {
  const LoadedModel gpt2 = *load_model(kModels + "gpt2", {true}),
                    albert = *load_model(kModels + "albert-mlm", {true});
  const std::vector<std::vector<int64_t>> first(static_cast<size_t>(gpt2.model->spec().main().layers()), {0});
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < gpt2.model->spec().main().layers(); ++i) layers.push_back(i);
  EXPECT_FALSE(reduce_model(gpt2, {layers, first, {}}, "gpt2").ok());
  EXPECT_TRUE(reduce_model(gpt2, {layers, {}, first}, "gpt2").ok());
  EXPECT_FALSE(reduce_model(albert, {{0}, {}, {}}, "albert").ok());
}

// A layer that changes nothing is removed first.
TEST(Reduce, TheLeastUsefulLayerIsRemoved) {
  const LoadedModel model = *load_model(kModels + "gemma2-three-layers", {true});
  for (const char* matrix : {"attn.o", "ffn.down"}) {
    const Tensor w = model.model->parameters().find(fmt::format("decoder.layers.1.{}.weight", matrix))->value;
    std::fill_n(w.f32(), w.count(), 0.0f);
  }
  StructuredPruningOptions options;
  options.layers = 2, options.ids = {3, 7, 4, 9, 20, 31, 2, 6};
  CpuDevice device(1);
  EXPECT_EQ(choose_kept_parts(model, options, device, "gemma")->layers, (std::vector<int64_t>{0, 2}));
}

// Whether a stack reads tokens; those that read images get no sample text.
bool reads_tokens(const Model& model) { return !model.spec().main().embedding.patches; }

std::vector<int64_t> sample_ids(int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back((i * 7 + i * i) % 90 + 5);
  return out;
}

bool has_more_heads(const StackSpec& s) {
  return std::any_of(s.blocks.begin(), s.blocks.end(),
                     [](const BlockSpec& b) { return has_attention(b) && b.attention.kv_heads > 1; });
}

// Each structured option on every family, with and without a sample text: a smaller model that runs, or an
// error that says why not. The text is longer than the positions of some of these models.
TEST(Reduce, EveryFamilyIsReducedOrRefusedWithAReason) {
  CpuDevice device(2);
  std::map<std::string, std::string> refused;
  int64_t reduced = 0;
  for (const auto& folder : std::filesystem::directory_iterator(kModels)) {
    const std::string name = folder.path().filename();
    const auto probe = load_model(folder.path(), {true});
    ASSERT_TRUE(probe.ok()) << name;
    const StackSpec& s = probe->model->spec().main();
    const BlockSpec* ffn = first_with_feed_forward(s);
    const std::pair<const char*, StructuredPruningOptions> cases[] = {
        {"layers", {std::max<int64_t>(1, s.layers() - 1), 0, 0, {}, 512}},
        {"kv_heads", {0, 1, 0, {}, 512}},
        {"ffn", {0, 0, ffn ? ffn->feed_forward.width / 2 : 8, {}, 512}}};
    for (const auto& [what, options] : cases)
      for (const bool with_text : {false, true}) {
        if (with_text && !reads_tokens(*probe->model)) continue;
        StructuredPruningOptions o = options;
        if (with_text) o.ids = sample_ids(150);
        const LoadedModel model = *load_model(folder.path(), {true});
        const auto kept = choose_kept_parts(model, o, device, name);
        const auto small = kept.ok() ? reduce_model(model, *kept, name) : Result<LoadedModel>(kept.error());
        if (!small.ok()) {
          EXPECT_GT(small.error().message.size(), 20u) << name << " " << what;
          refused[name + " " + what] = small.error().message;
          continue;
        }
        ++reduced;
        const bool smaller = small->model->parameters().count() < model.model->parameters().count();
        EXPECT_EQ(smaller, kept->layers.size() < model.model->spec().main().blocks.size() || o.ffn > 0 ||
                               has_more_heads(model.model->spec().main()))
            << name << what;
        if (reads_tokens(*small->model)) hidden_of(*small->model);
      }
  }
  EXPECT_GT(reduced, 250);
  for (const char* works : {"lfm2 kv_heads", "lfm2 ffn", "lfm2 layers", "mamba layers", "mamba2 layers",
                            "cohere2 layers", "smollm3 layers", "llama kv_heads", "mistral ffn"})
    EXPECT_FALSE(refused.contains(works)) << refused[works];
  for (const char* name : {"mamba", "mamba2"}) {
    EXPECT_NE(refused[std::string(name) + " kv_heads"].find("has no attention"), std::string::npos);
    EXPECT_NE(refused[std::string(name) + " ffn"].find("has no feed-forward"), std::string::npos);
  }
  EXPECT_NE(refused["albert-mlm kv_heads"].find("share their weights"), std::string::npos);
  EXPECT_NE(refused["t5-tied-clean ffn"].find("two stacks"), std::string::npos);
}

// The model of a golden config with changes, and random weights.
LoadedModel changed(const char* name, const Json& changes) {
  Json config = Config::read(kModels + name)->json();
  for (const auto& [key, value] : changes.items())
    if (value.is_null())
      config.erase(key);
    else
      config[key] = value;
  LoadedModel out = *make_model(Config(config, name));
  initialize(*out.model, 5);
  return out;
}

// Patterns that follow from a period are written as lists: windows and positions stay with their layers.
TEST(Reduce, ThePatternOfTheLayersThatRemainIsKept) {
  const LoadedModel cohere = changed("cohere2", {{"layer_types", nullptr}});
  const LoadedModel two = *reduce_model(cohere, {{2, 3}, {}, {}}, "cohere2");
  const auto& b = two.model->spec().main().blocks;
  EXPECT_EQ(b[0].attention.window, 6);
  EXPECT_TRUE(b[0].attention.rope);
  EXPECT_EQ(b[1].attention.window, 0);
  EXPECT_FALSE(b[1].attention.rope);
  EXPECT_EQ(two.model->spec().config["layer_types"], Json({"sliding_attention", "full_attention"}));

  const LoadedModel smol = changed("smollm3", {{"no_rope_layers", nullptr}});
  const LoadedModel last = *reduce_model(smol, {{2, 3}, {}, {}}, "smollm3");
  EXPECT_EQ(last.model->spec().config["no_rope_layers"], Json({1, 0}));
  EXPECT_FALSE(last.model->spec().main().blocks[1].attention.rope);

  const LoadedModel neo = *reduce_model(*load_model(kModels + "gpt-neo", {true}), {{1}, {}, {}}, "gpt-neo");
  EXPECT_EQ(neo.model->spec().config["attention_types"], Json::parse(R"([[["local"], 1]])"));
  EXPECT_EQ(neo.model->spec().main().blocks[0].attention.window, 5);

  const LoadedModel lfm2 = *reduce_model(*load_model(kModels + "lfm2", {true}), {{1, 2}, {}, {}}, "lfm2");
  EXPECT_FALSE(lfm2.model->spec().main().blocks[0].mixer);
  EXPECT_TRUE(lfm2.model->spec().main().blocks[1].mixer);

  const LoadedModel deepseek =
      *reduce_model(*load_model(kModels + "deepseek-v2", {true}), {{1}, {}, {}}, "deepseek-v2");
  EXPECT_EQ(deepseek.model->spec().config["first_k_dense_replace"], 0);

  // A list of two numbers that is not about the two layers.
  const LoadedModel mamba2 = *reduce_model(*load_model(kModels + "mamba2", {true}), {{1}, {}, {}}, "mamba2");
  EXPECT_EQ(mamba2.model->spec().config["time_step_limit"].size(), 2u);
}

// Configs whose defaults, or periods, are not those of the layers that remain.
TEST(Reduce, PeriodsAndDefaultsBecomeListsOfTheLayers) {
  const LoadedModel smol =
      changed("smollm3", {{"no_rope_layers", nullptr}, {"no_rope_layer_interval", nullptr}});
  const LoadedModel last = *reduce_model(smol, {{2, 3}, {}, {}}, "smollm3");
  EXPECT_EQ(last.model->spec().config["no_rope_layers"], Json({1, 0}));

  const LoadedModel qwen =
      changed("qwen3-moe",
              {{"decoder_sparse_step", 2}, {"mlp_only_layers", Json::array()}, {"num_hidden_layers", 4}});
  const LoadedModel three = *reduce_model(qwen, {{1, 2, 3}, {}, {}}, "qwen3-moe");
  EXPECT_EQ(three.model->spec().config["mlp_only_layers"], Json::array({1}));
  EXPECT_GT(three.model->spec().main().blocks[0].feed_forward.experts, 0);

  const LoadedModel lfm2 = changed("lfm2", {{"block_auto_adjust_ff_dim", nullptr}, {"block_multiple_of", 8}});
  const int64_t width = lfm2.model->spec().main().blocks[0].feed_forward.width;
  CpuDevice device(1);
  const LoadedModel narrow =
      *reduce_model(lfm2, *choose_kept_parts(lfm2, {0, 0, width / 2, {}, 32}, device, "lfm2"), "lfm2");
  EXPECT_EQ(narrow.model->spec().main().blocks[0].feed_forward.width, width / 2);
}

// Only the first layer of ELMo has no skip connection: it must stay the first.
TEST(Reduce, SkipConnectionsStayWithTheirLayers) {
  const auto elmo = [](bool skips) {
    LoadedModel out = *make_model(Config({{"architectures", {"ElmoForBidirectionalLM"}},
                                          {"model_type", "elmo"},
                                          {"vocab_size", 50},
                                          {"hidden_size", 16},
                                          {"num_hidden_layers", 3},
                                          {"use_skip_connections", skips}},
                                         "elmo"));
    initialize(*out.model, 5);
    return out;
  };
  EXPECT_TRUE(reduce_model(elmo(true), {{0, 2}, {}, {}}, "elmo").ok());
  EXPECT_FALSE(reduce_model(elmo(true), {{1, 2}, {}, {}}, "elmo").ok());
  EXPECT_TRUE(reduce_model(elmo(false), {{1, 2}, {}, {}}, "elmo").ok());
}

// StableLM in transformers computes the size of a head from the width.
TEST(Reduce, APatternThatAConfigCannotExpressIsRefused) {
  const LoadedModel stablelm = *load_model(kModels + "stablelm", {true});
  const std::vector<std::vector<int64_t>> first(stablelm.model->spec().main().blocks.size(), {0});
  EXPECT_FALSE(reduce_model(stablelm, {spread_layers(2, 2), first, {}}, "stablelm").ok());
  const auto scales = reduce_model(*load_model(kModels + "gpt2-layer-scales", {true}), {{1}, {}, {}}, "gpt2");
  ASSERT_FALSE(scales.ok());
  EXPECT_NE(scales.error().message.find("layer 1 would have scores scaled by"), std::string::npos)
      << scales.error().message;
  const auto no_norm =
      reduce_model(*load_model(kModels + "modernbert-mlm", {true}), {{1, 2}, {}, {}}, "modernbert");
  ASSERT_FALSE(no_norm.ok());
  EXPECT_NE(no_norm.error().message.find("norms"), std::string::npos) << no_norm.error().message;
}

// Mamba records the outputs of its layers only; its second layer changes nothing.
TEST(Reduce, TheLeastUsefulLayerOfMambaIsRemoved) {
  const LoadedModel model = changed("mamba", {{"num_hidden_layers", 4}});
  const Tensor w = model.model->parameters().find("decoder.layers.1.mixer.out.weight")->value;
  std::fill_n(w.f32(), w.count(), 0.0f);
  StructuredPruningOptions options;
  options.layers = 3, options.ids = sample_ids(20);
  CpuDevice device(1);
  EXPECT_EQ(choose_kept_parts(model, options, device, "mamba")->layers, (std::vector<int64_t>{0, 2, 3}));
}

}  // namespace
}  // namespace makar
