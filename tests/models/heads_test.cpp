// Norms per attention head (StableLM), output heads (ModernBERT), position biases (LaMDA).
#include "kernels/cpu_device.h"
#include "models/subjects.h"
#include "scratch_folder.h"

namespace makar {
namespace {

Tensor outputs_of(const Model& model, Device& device, const char* name) {
  Inputs inputs;
  inputs.source.add(random_ids(model.spec(), 11, 3));
  inputs.source.add(random_ids(model.spec(), 6, 4));
  Context ctx{device};
  ForwardContext f{ctx};
  return model.outputs(ctx, model.hidden(f, inputs), inputs.source).at(name).clone();
}

// One norm parameter per head and one for all heads, with the same values, give the same logits.
TEST(StableLm, SeparateNormsPerHeadEqualOneParameter) {
  Json config = subject("golden/stablelm").model->spec().config;
  config["qk_layernorm"] = true;
  const LoadedModel per_head = small_model(config);
  ModelSpec spec = per_head.model->spec();
  for (BlockSpec& b : spec.decoder->blocks) b.attention.qk_norm = QkNorm::kEachHead;
  Model merged(spec);
  for (const auto& p : merged.parameters().all()) {
    if (const Parameter* shared = per_head.model->parameters().find(p->name)) {
      p->value = shared->value;
      continue;
    }
    p->value = Tensor::empty(p->shape);  // [heads, head_dim]
    const std::string prefix = p->name.substr(0, p->name.size() - std::string("weight").size());
    for (int64_t h = 0; h < p->shape[0]; ++h) {
      const Tensor& head_norm =
          per_head.model->parameters().find(prefix + std::to_string(h) + ".weight")->value;
      for (int64_t i = 0; i < head_norm.count(); ++i)  // different for every head
        head_norm.f32()[i] = 0.5f + 0.1f * static_cast<float>(h) + 0.03f * static_cast<float>(i % 7);
      std::copy_n(head_norm.f32(), head_norm.count(), p->value.f32() + h * head_norm.count());
    }
  }
  CpuDevice device(1);
  EXPECT_TRUE(same_bits(outputs_of(*per_head.model, device, "logits"), outputs_of(merged, device, "logits")));
}

TEST(StableLm, HeadNormsAreSavedUnderTransformersNames) {
  Json config = subject("golden/stablelm").model->spec().config;
  config["qk_layernorm"] = true;
  const LoadedModel original = small_model(config);
  ScratchFolder folder;
  ASSERT_TRUE(save_model(folder.path(), *original.model, *original.family).ok());
  const auto loaded = load_model(folder.path(), {true});
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  std::set<std::string> names;
  for (const NamedTensor& t :
       named_tensors(*loaded->model, *loaded->family, false, [](const Parameter& p) { return p.value; }))
    names.insert(t.name);
  EXPECT_TRUE(names.contains("model.layers.1.self_attn.q_layernorm.norms.3.weight"));
  EXPECT_TRUE(names.contains("model.layers.0.self_attn.k_layernorm.norms.0.weight"));
  CpuDevice device(1);
  EXPECT_TRUE(
      same_bits(outputs_of(*original.model, device, "logits"), outputs_of(*loaded->model, device, "logits")));
}

// classifier(norm(gelu(dense(row)))), in doubles.
std::vector<double> head_by_hand(const Model& m, const float* row, const char* classifier) {
  const auto find = [&](const std::string& name) { return m.parameters().find(name)->value; };
  const Tensor dense = find("head.transform.weight"), norm = find("head.transform_norm.weight"),
               last = find(std::string(classifier) + ".weight"),
               bias = find(std::string(classifier) + ".bias");
  const int64_t width = dense.dim(1);
  std::vector<double> x(static_cast<size_t>(width)), out;
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < width; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < width; ++j) sum += double{dense.f32()[i * width + j]} * double{row[j]};
    x[static_cast<size_t>(i)] = 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0)));
    mean += x[static_cast<size_t>(i)] / static_cast<double>(width);
  }
  for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(width);
  for (int64_t l = 0; l < last.dim(0); ++l) {
    double sum = bias.f32()[l];
    for (int64_t i = 0; i < width; ++i)
      sum += double{last.f32()[l * width + i]} * double{norm.f32()[i]} * (x[static_cast<size_t>(i)] - mean) /
             std::sqrt(variance + 1e-5);
    out.push_back(sum);
  }
  return out;
}

TEST(ModernBert, HeadsComputeDenseActivationNormAndClassifier) {
  struct Case {
    const char *architecture, *pooling, *output, *parameter;
  };
  for (const Case& c : {Case{"ModernBertForSequenceClassification", "cls", "logits", "head.classifier"},
                        Case{"ModernBertForSequenceClassification", "mean", "logits", "head.classifier"},
                        Case{"ModernBertForTokenClassification", "cls", "logits", "head.classifier"},
                        Case{"ModernBertForQuestionAnswering", "cls", "end_logits", "head.answer"}}) {
    SCOPED_TRACE(c.architecture);
    Json config = subject("golden/modernbert-mlm").model->spec().config;
    config["architectures"] = {c.architecture};
    config["classifier_pooling"] = c.pooling;
    config["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
    const LoadedModel original = small_model(config);
    const Model& m = *original.model;
    CpuDevice device(1);
    Inputs inputs;
    inputs.source.add(random_ids(m.spec(), 9, 3));
    Context ctx{device};
    ForwardContext f{ctx};
    const Tensor hidden = m.hidden(f, inputs), got = m.outputs(ctx, hidden, inputs.source).at(c.output);
    const int64_t width = m.spec().encoder->width;
    std::vector<float> row(hidden.f32(), hidden.f32() + width);
    if (std::string(c.pooling) == "mean")
      for (int64_t i = 0; i < width; ++i) {
        double sum = 0;
        for (int64_t t = 0; t < 9; ++t) sum += hidden.f32()[t * width + i];
        row[static_cast<size_t>(i)] = static_cast<float>(sum / 9);
      }
    const auto expected = head_by_hand(m, row.data(), c.parameter);
    const bool is_answer = std::string(c.parameter) == "head.answer";
    for (size_t l = 0; l < (is_answer ? 1 : expected.size()); ++l)
      EXPECT_NEAR(got.f32()[l], expected[is_answer ? 1 : l], 1e-4 * (1 + std::abs(expected[l])));
    // Saved and loaded under transformers' names.
    ScratchFolder folder;
    ASSERT_TRUE(save_model(folder.path(), m, *original.family).ok());
    const auto loaded = load_model(folder.path(), {true});
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_TRUE(same_bits(outputs_of(m, device, c.output), outputs_of(*loaded->model, device, c.output)));
  }
}

// LaMDA's bias is T5's: one number per distance bucket and head, added to every score; without it, a decoder
// cannot tell the order of earlier tokens.
TEST(Lamda, DistanceBiasesEncodeTheOrder) {
  const LoadedModel original = small_model(Json::parse(
      R"({"model_type": "lamda", "architectures": ["LamdaForCausalLM"], "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 60, "hidden_act": "gelu_new",
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20})"));
  Parameter* bias = original.model->parameters().find("decoder.relative_bias.weight");
  ASSERT_NE(bias, nullptr);
  CpuDevice device(1);
  const auto last = [&](const std::vector<int64_t>& ids) {
    Inputs inputs;
    inputs.source.add(ids);
    const Tensor all = logits(*original.model, device, inputs);
    return all.slice(all.dim(0) - 1, all.dim(0)).clone();
  };
  const auto difference = [](const Tensor& a, const Tensor& b) {
    float largest = 0;
    for (int64_t i = 0; i < a.count(); ++i) largest = std::max(largest, std::abs(a.f32()[i] - b.f32()[i]));
    return largest;
  };
  EXPECT_GT(difference(last({5, 6, 7, 8}), last({7, 5, 6, 8})), 1e-2f);
  for (float& x : bias->value.span()) x = 0.25f;  // the same for all distances: no order
  EXPECT_LT(difference(last({5, 6, 7, 8}), last({7, 5, 6, 8})), 1e-5f);
}

}  // namespace
}  // namespace makar
