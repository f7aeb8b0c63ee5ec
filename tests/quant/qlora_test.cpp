// Adapters on a quantized base: memory, gradients close to those on the dequantized base, training.
#include "convert/gguf_model.h"
#include "kernels/cpu_device.h"
#include "models/adapter_training.h"
#include "quant/in_memory.h"
#include "scratch_folder.h"

namespace makar {
namespace {

// Wide enough for super-blocks; weights have the scale of a new model, so that quantization errors stay
// small.
LoadedModel plain_model() {
  Json c = small_config("llama");
  c["hidden_size"] = 256, c["intermediate_size"] = 512, c["head_dim"] = 64;
  auto loaded = make_model(Config(c, "config.json"));
  check(loaded.ok(), "cannot create the model");
  initialize(*loaded->model, 7);
  return std::move(*loaded);
}

class Qlora : public testing::TestWithParam<const char*> {
 protected:
  // A model whose blocks have the type of the test parameter.
  LoadedModel base() {
    LoadedModel loaded = plain_model();
    const Status s = quantize_in_memory(*loaded.model, GetParam(), pool_);
    check(s.ok(), s.ok() ? "" : s.error().text());
    return loaded;
  }
  // Adds an adapter whose B is not zero.
  AdapterConfig attach_adapter(const LoadedModel& loaded, bool dora = false) {
    AdapterConfig config;
    config.rank = 4, config.alpha = 8, config.dora = dora, config.targets = {"all-linear"};
    check(add_adapter(loaded, config, device_, 3).ok(), "cannot add the adapter");
    const Rng rng(1, Purpose::kSynthetic);
    for (const auto& p : loaded.model->parameters().all())
      if (p->name.find("lora_B") != std::string::npos)
        for (int64_t i = 0; i < p->value.count(); ++i)
          p->value.f32()[i] = 0.05f * (rng.uniform(static_cast<uint64_t>(i)) - 0.5f);
    return config;
  }
  float backward(const LoadedModel& loaded) { return loss_and_gradients(loaded, device_, 40); }
  ThreadPool pool_{2};
  CpuDevice device_{pool_};
};

TEST_P(Qlora, TheFrozenBaseIsSmallInMemory) {
  const LoadedModel original = plain_model(), loaded = base();
  size_t before = 0, after = 0;
  original.model->each_linear([&](const std::string& name, Linear& l) {
    if (name.find(".layers.") != std::string::npos) before += l.weight()->value.bytes();
  });
  loaded.model->each_linear([&](const std::string& name, Linear& l) {
    if (name.find(".layers.") == std::string::npos) return;
    EXPECT_TRUE(is_block(l.weight()->value.dtype())) << name;
    after += l.weight()->value.bytes();
  });
  EXPECT_LE(static_cast<double>(after), static_cast<double>(before) * (9.0 / 32));
}

// The forward pass rounds activations to int8, so gradients are close to those on the dequantized base, not
// equal.
TEST_P(Qlora, GradientsMatchTheDequantizedBase) {
  for (const bool dora : {false, true}) {
    const LoadedModel quantized = base(), unquantized = base();
    unquantized.model->each_linear([&](const std::string&, Linear& l) {
      l.weight()->value = ops::decode_to_f32(device_, l.weight()->value).clone();
    });
    attach_adapter(quantized, dora), attach_adapter(unquantized, dora);
    const float a = backward(quantized), b = backward(unquantized);
    EXPECT_NEAR(a, b, 0.02f * b);
    double difference = 0, size = 0;
    int64_t trained = 0;
    for (const auto& p : quantized.model->parameters().all()) {
      const Tensor other = unquantized.model->parameters().find(p->name)->grad;
      ASSERT_EQ(p->grad.defined(), p->name.starts_with("adapter.")) << p->name;
      if (!p->grad.defined()) continue;
      ++trained;
      for (int64_t i = 0; i < other.count(); ++i)
        difference += std::pow(p->grad.f32()[i] - other.f32()[i], 2), size += std::pow(other.f32()[i], 2);
    }
    EXPECT_EQ(trained, dora ? 42 : 28);
    EXPECT_GT(size, 0);
    EXPECT_LT(std::sqrt(difference / size), 0.03);
  }
}

// The gradient of a layer's input is exactly the one through the dequantized weight.
TEST_P(Qlora, TheInputsGradientIsExact) {
  const LoadedModel loaded = base();
  loaded.model->each_linear([&](const std::string& name, Linear& l) {
    if (name.find(".layers.0.") == std::string::npos) return;
    const auto gradient = [&](const Tensor& w) {
      const Rng rng(7, Purpose::kSynthetic);
      Tensor x = Tensor::empty({5, w.dim(1)}), dy = Tensor::empty({5, w.dim(0)});
      for (int64_t i = 0; i < x.count(); ++i) x.f32()[i] = rng.normal(static_cast<uint64_t>(i));
      for (int64_t i = 0; i < dy.count(); ++i) dy.f32()[i] = rng.normal(static_cast<uint64_t>(i + 9999));
      Tensor out = Tensor::empty(x.shape());
      ops::input_gradient(device_, 5, dy.f32(), w, {out.f32(), w.dim(1)});
      return out;
    };
    EXPECT_TRUE(
        same_bits(gradient(l.weight()->value), gradient(ops::decode_to_f32(device_, l.weight()->value))))
        << name;
  });
}

TEST_P(Qlora, TrainsAndSavesInPeftFormat) {
  const LoadedModel loaded = base();
  const AdapterConfig config = attach_adapter(loaded);
  expect_training_and_loading(loaded, config, base(), device_, 40, 15, 0.7f);
}

INSTANTIATE_TEST_SUITE_P(Types, Qlora, testing::Values("q8_0", "q4_0", "q4_k", "q6_k"),
                         [](const auto& info) { return std::string(info.param); });

TEST(QloraBase, UnknownTypesAreErrors) {
  ThreadPool pool(1);
  const LoadedModel loaded = plain_model();
  const Status s = quantize_in_memory(*loaded.model, "q4_9", pool);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().text().find("q4_0"), std::string::npos) << s.error().text();
}

TEST(QloraBase, FullyTrainedModulesBecomeF32) {
  ThreadPool pool(1);
  const LoadedModel loaded = plain_model();
  ASSERT_TRUE(quantize_in_memory(*loaded.model, "q4_0", pool).ok());
  AdapterConfig config;
  config.targets = {"q_proj"}, config.modules_to_save = {"o_proj"};
  CpuDevice device(pool);
  ASSERT_TRUE(add_adapter(loaded, config, device, 1).ok());
  for (const auto& p : loaded.model->parameters().all())
    if (p->trainable) EXPECT_EQ(p->value.dtype(), DType::kF32) << p->name;
}

}  // namespace
}  // namespace makar
