// Models in GGUF: every family that GGUF supports, written, read and run; and files quantized by llama.cpp,
// compared with what llama.cpp computes from them.
#include <algorithm>
#include <fstream>
#include <numeric>

#include "convert/gguf_write.h"
#include "formats/gguf_writer.h"
#include "kernels/cpu_device.h"
#include "models/source.h"
#include "models/subjects.h"
#include "scratch_folder.h"

namespace makar {
namespace {

Status save(const std::string& path, const LoadedModel& loaded) {
  MAKAR_TRY(const GgufFields fields, gguf_fields(loaded));
  MAKAR_TRY(const auto sources, gguf_sources(loaded));
  return write_gguf(path, fields, sources);
}

Tensor hidden(const Model& model, Device& device) {
  Inputs inputs;
  inputs.source.add(random_ids(model.spec(), 23, 5));
  if (model.spec().encoder && model.spec().decoder) inputs.target.add(random_ids(model.spec(), 9, 6));
  Context ctx{device};
  ForwardContext f{ctx};
  const Tensor h = model.hidden(f, inputs);
  return model.spec().head.kind == HeadKind::kCausalLm ? model.lm_logits(ctx, h) : h;
}

class GgufModels : public testing::TestWithParam<std::string> {};

TEST_P(GgufModels, RoundTripGivesTheSameOutputs) {
  LoadedModel original = subject(GetParam());
  if (GetParam() == "small/t5") {
    Json config = small_config("t5");
    config["relative_attention_max_distance"] = 128;  // the only distance that GGUF supports
    original = small_model(config);
  }
  ScratchFolder folder;
  const Status saved = save(folder / "model.gguf", original);
  ASSERT_TRUE(saved.ok()) << saved.error().text();
  // The file, and the folder that has only this file.
  for (const std::string& path : {folder / "model.gguf", folder.path()}) {
    const auto loaded = load_model(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_EQ(loaded->family, original.family);
    EXPECT_EQ(loaded->model->parameters().count() + (original.model->spec().head.pooler ? 64 * 65 : 0),
              original.model->parameters().count());
    CpuDevice device(2);
    EXPECT_TRUE(same_bits(hidden(*original.model, device), hidden(*loaded->model, device)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, GgufModels,
    testing::Values("golden/llama", "golden/llama-rope-linear", "golden/llama-rope-yarn",
                    "golden/llama-tied-rope-llama3", "golden/mistral", "golden/mixtral",
                    "golden/mixtral-window", "golden/qwen2", "golden/qwen3", "small/gemma2", "golden/gpt2",
                    "golden/gpt-neox", "golden/neox-sequential", "golden/falcon-mqa", "golden/falcon-grouped",
                    "golden/bloom-alibi", "golden/bert-embedding", "small/t5", "golden/gemma", "golden/phi",
                    "golden/phi3", "golden/phi3-longrope", "golden/qwen2-moe", "golden/gpt-oss",
                    "golden/olmo2", "golden/olmoe", "golden/smollm3", "golden/granite", "golden/cohere",
                    "golden/cohere2", "golden/stablelm", "golden/starcoder2", "golden/glm4",
                    "golden/nemotron", "golden/ernie4-5", "golden/gpt-bigcode", "golden/mpt",
                    "golden/deepseek-v2", "golden/deepseek-v3", "golden/lfm2", "small/deepseek_v3",
                    "small/lfm2"),
    test_name);

void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  double difference = 0, size = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    difference += std::pow(a.f32()[i] - b.f32()[i], 2.0);
    size += std::pow(a.f32()[i], 2.0);
  }
  EXPECT_LE(std::sqrt(difference / size), 1e-6);
}

// The file holds -exp(A), which rounds.
TEST(GgufModels, ScansAreTheSameUpToRounding) {
  for (const char* name : {"golden/mamba", "small/mamba", "small/mamba2"}) {
    SCOPED_TRACE(name);
    Json config = subject(name).model->spec().config;
    if (config["model_type"] == "mamba2") config["n_groups"] = 1;
    const LoadedModel original = small_model(config);
    ScratchFolder folder;
    const Status saved = save(folder / "m.gguf", original);
    ASSERT_TRUE(saved.ok()) << saved.error().text();
    const auto loaded = load_model(folder / "m.gguf");
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_EQ(loaded->family, original.family);
    CpuDevice device(2);
    expect_close(hidden(*original.model, device), hidden(*loaded->model, device));
  }
}

// Only the encoder is written, whatever its head.
TEST(GgufModels, ModernBertIsWrittenWithoutItsHead) {
  const LoadedModel original = subject("golden/modernbert-mlm");
  ScratchFolder folder;
  const Status saved = save(folder / "m.gguf", original);
  ASSERT_TRUE(saved.ok()) << saved.error().text();
  const auto loaded = load_model(folder / "m.gguf");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(loaded->model->spec().head.kind, HeadKind::kNone);
  CpuDevice device(2);
  EXPECT_TRUE(same_bits(hidden(*original.model, device), hidden(*loaded->model, device)));
}

TEST(GgufModels, StableLmKeepsTheNormsOfItsHeads) {
  Json config = subject("golden/stablelm").model->spec().config;
  config["qk_layernorm"] = true;
  const LoadedModel original = small_model(config);
  ScratchFolder folder;
  const Status saved = save(folder / "m.gguf", original);
  ASSERT_TRUE(saved.ok()) << saved.error().text();
  const auto loaded = load_model(folder / "m.gguf");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  CpuDevice device(2);
  EXPECT_TRUE(same_bits(hidden(*original.model, device), hidden(*loaded->model, device)));
}

// Files of 2024 store keys and values of a latent in one matrix.
TEST(GgufModels, ReadsTheJoinedKeysAndValuesOfDeepSeek) {
  const LoadedModel original = subject("golden/deepseek-v3");
  auto sources = *gguf_sources(original);
  std::erase_if(sources, [](const GgufTensorSource& s) {
    return s.name.find("attn_k_b") != s.name.npos || s.name.find("attn_v_b") != s.name.npos;
  });
  const AttentionSpec& a = original.model->spec().decoder->first().attention;
  for (int64_t i = 0; i < original.model->spec().decoder->layers(); ++i) {
    const std::string at = fmt::format("decoder.layers.{}.attn.", i);
    const Tensor k = original.model->parameters().find(at + "k.weight")->value,
                 v = original.model->parameters().find(at + "v.weight")->value;
    const int64_t rank = a.latent->rank, keys = k.dim(0) / a.heads, values = v.dim(0) / a.heads;
    const Tensor both = Tensor::empty({k.dim(0) + v.dim(0), rank});
    for (int64_t h = 0; h < a.heads; ++h) {
      float* to = both.f32() + h * (keys + values) * rank;
      std::copy_n(k.f32() + h * keys * rank, keys * rank, to);
      std::copy_n(v.f32() + h * values * rank, values * rank, to + keys * rank);
    }
    sources.push_back({fmt::format("blk.{}.attn_kv_b.weight", i), DType::kF32, both.shape(),
                       [both]() -> Result<Tensor> { return both; }});
  }
  ScratchFolder folder;
  GgufFields fields = *gguf_fields(original);
  for (const char* part : {"key", "value"}) {
    const std::string key = fmt::format("deepseek2.attention.{}_length", part);
    fields.set(key, *fields.find(key + "_mla"));
    fields.erase(key + "_mla");
  }
  ASSERT_TRUE(write_gguf(folder / "m.gguf", fields, sources).ok());
  const auto loaded = load_model(folder / "m.gguf");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  CpuDevice device(2);
  EXPECT_TRUE(same_bits(hidden(*original.model, device), hidden(*loaded->model, device)));
}

// Files of 2023 store each expert separately; others store gate and up of all experts in one tensor.
TEST(GgufModels, OtherExpertLayoutsGiveTheSameOutputs) {
  const LoadedModel original = subject("golden/mixtral");
  const GgufFields fields = *gguf_fields(original);
  const auto sources = *gguf_sources(original);
  const auto named = [](const std::string& name, const Tensor& t) {
    return GgufTensorSource{name, t.dtype(), t.shape(), [t]() -> Result<Tensor> { return t; }};
  };
  std::vector<GgufTensorSource> single, merged;
  for (const GgufTensorSource& s : sources) {
    const size_t at = s.name.find("_exps.weight");
    if (at == s.name.npos) {
      single.push_back(s), merged.push_back(s);
      continue;
    }
    const Tensor all = *s.make();  // [experts, out, in]
    const int64_t experts = all.dim(0), each = all.count() / experts;
    for (int64_t e = 0; e < experts; ++e)
      single.push_back(
          named(fmt::format("{}.{}.weight", s.name.substr(0, at), e), all.reshape({all.count()})
                                                                          .slice(e * each, (e + 1) * each)
                                                                          .reshape({all.dim(1), all.dim(2)})
                                                                          .clone()));
    if (s.name.ends_with("ffn_down_exps.weight")) merged.push_back(s);
    if (!s.name.ends_with("ffn_gate_exps.weight")) continue;
    const auto up = std::find_if(sources.begin(), sources.end(), [&](const GgufTensorSource& o) {
      return o.name == s.name.substr(0, at - 4) + "up_exps.weight";
    });
    ASSERT_NE(up, sources.end());
    const Tensor other = *up->make(), both = Tensor::empty({experts, 2 * all.dim(1), all.dim(2)});
    for (int64_t e = 0; e < experts; ++e) {
      std::copy_n(all.f32() + e * each, each, both.f32() + 2 * e * each);
      std::copy_n(other.f32() + e * each, each, both.f32() + (2 * e + 1) * each);
    }
    merged.push_back(named(s.name.substr(0, at - 4) + "gate_up_exps.weight", both));
  }
  CpuDevice device(2);
  const Tensor expected = hidden(*original.model, device);
  for (const auto* list : {&single, &merged}) {
    ScratchFolder folder;
    ASSERT_TRUE(write_gguf(folder / "m.gguf", fields, *list).ok());
    const auto loaded = load_model(folder / "m.gguf");
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_TRUE(same_bits(expected, hidden(*loaded->model, device)));
  }
  // A missing expert is an error.
  single.erase(std::find_if(single.begin(), single.end(),
                            [](const GgufTensorSource& s) { return s.name == "blk.0.ffn_gate.1.weight"; }));
  ScratchFolder folder;
  ASSERT_TRUE(write_gguf(folder / "m.gguf", fields, single).ok());
  EXPECT_FALSE(load_model(folder / "m.gguf").ok());
}

// llama.cpp writes RoBERTa and XLM-RoBERTa as bert: without the position rows before the first, with one
// token type and a different tokenizer. It computes the same as a BERT with token type 0.
TEST(GgufModels, ReadsRobertaStoredAsBert) {
  const LoadedModel original = subject("golden/bert-embedding");
  GgufFields fields = *gguf_fields(original);
  fields.set("tokenizer.ggml.model", GgufValue::text("gpt2"));
  auto sources = *gguf_sources(original);
  for (GgufTensorSource& s : sources)
    if (s.name == "token_types.weight") {
      const Tensor first = s.make()->slice(0, 1).clone();
      s = {s.name, first.dtype(), first.shape(), [first]() -> Result<Tensor> { return first; }};
    }
  ScratchFolder folder;
  ASSERT_TRUE(write_gguf(folder / "m.gguf", fields, sources).ok());
  const auto loaded = load_model(folder / "m.gguf");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  CpuDevice device(2);
  EXPECT_TRUE(same_bits(hidden(*original.model, device), hidden(*loaded->model, device)));
}

// A RoBERTa or DistilBERT with any head, written this way, is read as a bert with the same hidden states.
TEST(GgufModels, RobertaAndDistilBertAreWrittenAsBert) {
  for (const char* name : {"golden/roberta-mlm", "golden/roberta-classifier", "golden/distilbert-mlm"}) {
    const LoadedModel original = subject(name);
    const ModelSpec& spec = original.model->spec();
    ScratchFolder folder;
    const Status saved = save(folder / "m.gguf", original);
    ASSERT_TRUE(saved.ok()) << saved.error().text();
    const auto loaded = load_model(folder / "m.gguf");
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_EQ(loaded->model->spec().family, "bert");
    EXPECT_EQ(loaded->model->spec().max_positions, spec.max_positions);
    EXPECT_EQ(loaded->model->parameters().find("encoder.embed.positions.weight")->shape[0],
              spec.max_positions);
    EXPECT_EQ(loaded->model->spec().encoder->embedding.types, spec.encoder->embedding.types);
    CpuDevice device(2);
    EXPECT_TRUE(same_bits(hidden(*original.model, device), hidden(*loaded->model, device))) << name;
  }
}

// A model split into three files, named as by llama-gguf-split: opened by the first file or by the folder.
TEST(GgufModels, ASplitModelLoads) {
  const LoadedModel original = subject("golden/llama");
  const auto sources = *gguf_sources(original);
  ScratchFolder folder;
  for (int i = 0; i < 3; ++i) {
    GgufFields fields = i == 0 ? *gguf_fields(original) : GgufFields();
    fields.set("split.no", GgufValue::u32(static_cast<uint32_t>(i)));
    fields.set("split.count", GgufValue::u32(3));
    fields.set("split.tensors.count", GgufValue::u32(static_cast<uint32_t>(sources.size())));
    std::vector<GgufTensorSource> part;
    for (size_t t = 0; t < sources.size(); ++t)
      if (static_cast<int>(t % 3) == i) part.push_back(sources[t]);
    ASSERT_TRUE(write_gguf(folder / fmt::format("m-{:05}-of-00003.gguf", i + 1), fields, part).ok());
  }
  CpuDevice device(2);
  for (const std::string& path : {folder / "m-00001-of-00003.gguf", folder.path()}) {
    const auto loaded = load_model(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_TRUE(same_bits(hidden(*original.model, device), hidden(*loaded->model, device)));
  }
}

TEST(GgufModels, ModelsThatGgufCannotRepresentAreRefused) {
  for (const char* name :
       {"golden/llama-rope-dynamic", "golden/llama-biases", "golden/t5-relu-tied", "golden/qwen2-window",
        "golden/falcon-alibi-sequential", "golden/bloom-post-residual", "golden/t5-gated-silu-untied",
        "golden/llama-reward", "golden/opt", "golden/albert-mlm", "golden/gemma2", "golden/gemma3-text",
        "golden/exaone4", "golden/qwen3-moe", "golden/gptj", "golden/umt5", "golden/mamba2"}) {
    ScratchFolder folder;
    const Status saved = save(folder / "model.gguf", subject(name));
    ASSERT_FALSE(saved.ok()) << name;
    EXPECT_EQ(saved.error().kind, Error::Kind::kUnsupported) << name;
    EXPECT_FALSE(folder.has("model.gguf"));
  }
}

TEST(GgufModels, BrokenMetadataGivesLocatedErrors) {
  const LoadedModel original = subject("golden/llama");
  ScratchFolder folder;
  const auto expect = [&](const std::function<void(GgufFields&, std::vector<GgufTensorSource>&)>& change,
                          const std::vector<std::string>& parts) {
    GgufFields fields = *gguf_fields(original);
    auto sources = *gguf_sources(original);
    change(fields, sources);
    ASSERT_TRUE(write_gguf(folder / "m.gguf", fields, sources).ok());
    const auto loaded = load_model(folder / "m.gguf");
    ASSERT_FALSE(loaded.ok()) << parts[0];
    for (const std::string& part : parts)
      EXPECT_NE(loaded.error().text().find(part), std::string::npos) << loaded.error().text();
    EXPECT_NE(loaded.error().text().find("m.gguf"), std::string::npos);
  };
  using Sources = std::vector<GgufTensorSource>;
  const auto set = [](const char* key, GgufValue value) {
    return [=](GgufFields& f, Sources&) { f.set(key, value); };
  };
  const auto drop_key = [](const char* key) { return [=](GgufFields& f, Sources&) { f.erase(key); }; };
  const auto drop_tensor = [](const char* name) {
    return [=](GgufFields&, Sources& s) {
      std::erase_if(s, [&](const GgufTensorSource& t) { return t.name == name; });
    };
  };
  expect(drop_key("general.architecture"), {"general.architecture", "missing"});
  expect(set("general.architecture", GgufValue::text("lama")), {"'lama'", "did you mean 'llama'"});
  expect(set("general.architecture", GgufValue::u32(3)), {"general.architecture", "not a string"});
  expect(drop_key("llama.block_count"), {"llama.block_count", "missing"});
  expect(set("llama.block_count", GgufValue::text("two")),
         {"llama.block_count", "must be an integer, found 'two'"});
  expect(set("llama.block_count", GgufValue::u32(3)), {"blk.2.", "missing"});
  expect(set("llama.block_count", GgufValue::u32(1)), {"blk.1.", "is not part of"});
  expect(set("llama.block_count", GgufValue::u32(1000000)), {"num_hidden_layers"});
  expect(set("llama.embedding_length", GgufValue::u32(32)), {"token_embd.weight", "shape"});
  expect(set("llama.attention.head_count", GgufValue::u32(0)), {"num_attention_heads"});
  expect(set("llama.attention.head_count_kv", GgufValue::i32s(std::vector<int32_t>{1, 2})),
         {"head_count_kv", "found 2 of i32"});
  expect(set("llama.attention.layer_norm_rms_epsilon", GgufValue::f32(NAN)),
         {"rms_epsilon", "must be a number"});
  expect(set("llama.rope.dimension_count", GgufValue::u32(8)), {"rope.dimension_count", "8 of 16"});
  expect(set("llama.rope.scaling.type", GgufValue::text("longrope")), {"'longrope'", "linear and yarn"});
  expect(set("llama.rope.scaling.type", GgufValue::text("yarn")),
         {"rope.scaling.factor", "yarn requires it"});
  expect(set("split.count", GgufValue::u32(3)), {"file 1 of 3", "-00001-of-00003.gguf"});
  expect(drop_tensor("token_embd.weight"), {"token_embd.weight", "missing"});
  expect(drop_tensor("blk.1.ffn_up.weight"), {"blk.1.ffn_up.weight", "the metadata requires it"});
  expect([](GgufFields&, Sources& s) { s[0].name = "token_embd.weights"; }, {"token_embd.weight"});
  expect(
      [](GgufFields&, Sources& s) {
        const Tensor t = Tensor::full({8}, 3.0f);
        s.push_back({"rope_freqs.weight", DType::kF32, {8}, [t]() -> Result<Tensor> { return t; }});
      },
      {"rope_freqs.weight", "do not match Llama 3"});
}

// --- files of llama.cpp ---

std::string golden_gguf() {
  const char* assets = std::getenv("MAKAR_ASSETS");
  return std::string(assets ? assets : "../shared/assets") + "/../golden/gguf/";
}

std::vector<float> next_log_probabilities(const Model& model, Device& device,
                                          const std::vector<int64_t>& ids) {
  Inputs inputs;
  inputs.source.add(ids);
  const Tensor all = logits(model, device, inputs), last = all.slice(all.dim(0) - 1, all.dim(0));
  std::vector<float> out(last.span().begin(), last.span().end());
  double sum = 0;
  const float highest = *std::max_element(out.begin(), out.end());
  for (const float x : out) sum += std::exp(static_cast<double>(x - highest));
  for (float& x : out) x -= highest + static_cast<float>(std::log(sum));
  return out;
}

// llama.cpp stores keys and values in f16 and rounds activations to 8 bits with quantized weights: its
// log-probabilities are close, not equal, and tokens are compared only where its choice is clear. Byte tokens
// (ids below 259) were excluded from its choice.
void compare(const Json& file, const Model& model, double tolerance, const std::string& kind) {
  CpuDevice device(2);
  for (const Json& one : file["llama.cpp"]) {
    auto ids = one["prompt"].get<std::vector<int64_t>>();
    const auto first = next_log_probabilities(model, device, ids);
    double sum = 0;
    for (const Json& pair : one["first_top"])
      sum += std::abs(first[pair[0].get<size_t>()] - pair[1].get<double>());
    EXPECT_LE(sum / static_cast<double>(one["first_top"].size()), tolerance) << kind;
    for (const int64_t token : one["tokens"].get<std::vector<int64_t>>()) {
      const auto p = next_log_probabilities(model, device, ids);
      const auto best = std::max_element(p.begin() + 259, p.end());
      EXPECT_GE(p[static_cast<size_t>(token)], *best - 2 * tolerance) << kind;
      ids.push_back(token);
    }
  }
}

TEST(GgufGolden, MatchesLlamaCpp) {
  if (!std::filesystem::exists(golden_gguf())) GTEST_SKIP() << "no " << golden_gguf();
  std::ifstream in(golden_gguf() + "golden.json");
  const Json golden = Json::parse(in);
  for (const auto& [kind, file] : golden["files"].items()) {
    const auto loaded = load_model(golden_gguf() + "llama-" + (kind == "F32" ? "f32" : kind) + ".gguf");
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    // Both sides round activations to 8 bits, each in its own blocks: this causes the difference for
    // quantized types.
    compare(file, *loaded->model, kind == "F32" ? 5e-3 : kind == "F16" ? 1e-2 : 0.15, kind);
  }
}

}  // namespace
}  // namespace makar
