// Adapters on weights quantized like those of bitsandbytes (NF4, NF4 with quantized scales, int8) and gpt-oss
// (MXFP4). The test packs the files by the formulas of the formats.
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "kernels/cpu_device.h"
#include "models/adapter_training.h"
#include "models/small_models.h"
#include "scratch_folder.h"
#include "train/objective.h"

namespace makar {
namespace {

// The table of QLoRA's paper.
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};
constexpr float kE2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

Tensor text(const std::string& s) {
  Tensor t = Tensor::empty({static_cast<int64_t>(s.size())}, DType::kU8);
  std::copy(s.begin(), s.end(), t.data<uint8_t>());
  return t;
}

// One matrix: its stored parts, and the values that the parts decode to.
struct PrequantizedMatrixValues {
  std::vector<NamedTensor> stored;
  Tensor decoded;
};

PrequantizedMatrixValues nf4(const std::string& name, const Tensor& w, bool nested) {
  constexpr int64_t kBlockSize = 64;
  const int64_t block_count = w.count() / kBlockSize;
  PrequantizedMatrixValues out{{}, Tensor::empty(w.shape())};
  Tensor bytes = Tensor::zeros({w.count() / 2, 1}, DType::kU8), absmax = Tensor::zeros({block_count}),
         codes = Tensor::zeros({block_count}, DType::kU8),
         nested_absmax = Tensor::from({1}, std::vector<float>{0.25f}), nested_map = Tensor::zeros({256});
  for (int i = 0; i < 256; ++i) nested_map.f32()[i] = static_cast<float>(i - 128) / 128;
  for (int64_t r = 0; r < block_count; ++r) {
    float block_absmax = 0;
    for (int64_t i = 0; i < kBlockSize; ++i)
      block_absmax = std::max(block_absmax, std::fabs(w.f32()[r * kBlockSize + i]));
    if (nested) {  // block_absmax is about (code - 128) / 128 * 0.25 + 0.25
      const int code =
          std::clamp(static_cast<int>(std::lround((block_absmax - 0.25f) / 0.25f * 128)) + 128, 0, 255);
      codes.data<uint8_t>()[r] = static_cast<uint8_t>(code);
      block_absmax = nested_map.f32()[code] * 0.25f + 0.25f;
    }
    absmax.f32()[r] = block_absmax;
    for (int64_t i = r * kBlockSize; i < (r + 1) * kBlockSize; ++i) {
      int best = 0;
      for (int k = 1; k < 16; ++k)
        if (std::fabs(kNf4[k] * block_absmax - w.f32()[i]) <
            std::fabs(kNf4[best] * block_absmax - w.f32()[i]))
          best = k;
      bytes.data<uint8_t>()[i / 2] |= static_cast<uint8_t>(i % 2 ? best : best << 4);
      out.decoded.f32()[i] = kNf4[best] * block_absmax;
    }
  }
  Json state = {{"quant_type", "nf4"},
                {"blocksize", kBlockSize},
                {"dtype", "float16"},
                {"shape", {w.dim(0), w.dim(1)}}};
  if (nested) state.update({{"nested_blocksize", 256}, {"nested_dtype", "float32"}, {"nested_offset", 0.25}});
  out.stored = {{name, bytes},
                {name + ".quant_map", Tensor::from({16}, std::span<const float>(kNf4))},
                {name + ".absmax", nested ? codes : absmax},
                {name + ".quant_state.bitsandbytes__nf4", text(state.dump())}};
  if (nested)
    out.stored.insert(out.stored.end(),
                      {{name + ".nested_absmax", nested_absmax}, {name + ".nested_quant_map", nested_map}});
  return out;
}

PrequantizedMatrixValues int8(const std::string& name, const Tensor& w) {
  PrequantizedMatrixValues out{{}, Tensor::empty(w.shape())};
  Tensor values = Tensor::empty(w.shape(), DType::kI8), absmax = Tensor::zeros({w.dim(0)});
  const int64_t columns = w.dim(1);
  for (int64_t r = 0; r < w.dim(0); ++r) {
    for (int64_t c = 0; c < columns; ++c)
      absmax.f32()[r] = std::max(absmax.f32()[r], std::fabs(w.f32()[r * columns + c]));
    for (int64_t i = r * columns; i < (r + 1) * columns; ++i) {
      values.data<int8_t>()[i] = static_cast<int8_t>(std::lround(w.f32()[i] / absmax.f32()[r] * 127));
      out.decoded.f32()[i] = static_cast<float>(values.data<int8_t>()[i]) * absmax.f32()[r] / 127.0f;
    }
  }
  out.stored = {{name, values}, {name.substr(0, name.rfind('.')) + ".SCB", absmax}};
  return out;
}

// Experts [experts, in, out] in blocks of 32 inputs.
PrequantizedMatrixValues mxfp4(const std::string& name, const Tensor& w) {
  const int64_t experts = w.dim(0), in = w.dim(1), outs = w.dim(2), groups = in / 32;
  PrequantizedMatrixValues out{{}, Tensor::empty(w.shape())};
  Tensor blocks = Tensor::zeros({experts, outs, groups, 16}, DType::kU8),
         scales = Tensor::zeros({experts, outs, groups}, DType::kU8);
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t o = 0; o < outs; ++o)
      for (int64_t g = 0; g < groups; ++g) {
        const auto at = [&](int64_t k) { return (e * in + g * 32 + k) * outs + o; };
        const int64_t block = (e * outs + o) * groups + g;
        float block_absmax = 0;
        for (int64_t k = 0; k < 32; ++k) block_absmax = std::max(block_absmax, std::fabs(w.f32()[at(k)]));
        const int exponent = static_cast<int>(std::ceil(std::log2(block_absmax / 6)));
        scales.data<uint8_t>()[block] = static_cast<uint8_t>(127 + exponent);
        for (int64_t k = 0; k < 32; ++k) {
          const float v = std::ldexp(w.f32()[at(k)], -exponent);
          int best = 0;
          for (int c = 1; c < 8; ++c)
            if (std::fabs(kE2m1[c] - std::fabs(v)) < std::fabs(kE2m1[best] - std::fabs(v))) best = c;
          const bool minus = v < 0 && best > 0;
          blocks.data<uint8_t>()[block * 16 + k / 2] |=
              static_cast<uint8_t>((best | (minus ? 8 : 0)) << (k % 2 * 4));
          out.decoded.f32()[at(k)] = std::ldexp(minus ? -kE2m1[best] : kE2m1[best], exponent);
        }
      }
  out.stored = {{name + "_blocks", blocks}, {name + "_scales", scales}};
  return out;
}

class PrequantizedBase : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const bool experts = GetParam() == "mxfp4";
    Json c = small_config(experts ? "gpt_oss" : "llama");
    c["hidden_size"] = 64, c["intermediate_size"] = 96, c["head_dim"] = 16;
    const auto model = make_model(Config(c, "config.json"));
    ASSERT_TRUE(model.ok()) << model.error().text();
    initialize(*model->model, 7);
    ScratchFolder plain;
    ASSERT_TRUE(save_model(plain.path(), *model->model, *model->family).ok());
    const auto file = *Safetensors::open(plain / "model.safetensors");
    std::vector<NamedTensor> stored, decoded;
    int64_t matrices = 0;
    for (const std::string& name : file->names()) {
      const Tensor w = file->tensor(name)->clone();
      const bool is_prequantized =
          experts ? name.ends_with("_proj") && w.rank() == 3 : name.ends_with("_proj.weight");
      if (!is_prequantized) {
        stored.push_back({name, w}), decoded.push_back({name, w});
        continue;
      }
      const PrequantizedMatrixValues pair = experts                ? mxfp4(name, w)
                                            : GetParam() == "int8" ? int8(name, w)
                                                                   : nf4(name, w, GetParam() == "nf4_nested");
      stored.insert(stored.end(), pair.stored.begin(), pair.stored.end());
      decoded.push_back({name, pair.decoded});
      ++matrices;
    }
    EXPECT_EQ(matrices, experts ? 4 : 14);
    ASSERT_TRUE(write_file(decoded_ / "config.json", c.dump()).ok());
    c["quantization_config"] = {{"quant_method", experts ? "mxfp4" : "bitsandbytes"}};
    ASSERT_TRUE(write_file(prequantized_ / "config.json", c.dump()).ok());
    ASSERT_TRUE(write_safetensors(prequantized_ / "model.safetensors", stored).ok());
    ASSERT_TRUE(write_safetensors(decoded_ / "model.safetensors", decoded).ok());
  }

  LoadedModel load(const ScratchFolder& folder, bool exact) {
    auto loaded = load_model(folder.path(), {.exact = exact});
    check(loaded.ok(), loaded.ok() ? "" : loaded.error().text());
    return std::move(*loaded);
  }
  float backward(const LoadedModel& loaded) { return loss_and_gradients(loaded, device_, 30); }
  AdapterConfig attach_adapter(const LoadedModel& loaded) {
    AdapterConfig config;
    config.rank = 4, config.alpha = 8, config.targets = {"all-linear"};
    const Status status = add_adapter(loaded, config, device_, 3);
    check(status.ok(), status.ok() ? "" : status.error().text());
    return config;
  }

  ScratchFolder prequantized_, decoded_;
  CpuDevice device_{2};
};

TEST_P(PrequantizedBase, LossAndGradientsEqualThoseOfDecodedWeights) {
  const LoadedModel a = load(prequantized_, true), b = load(decoded_, true);
  attach_adapter(a), attach_adapter(b);
  EXPECT_NEAR(backward(a), backward(b), 1e-5);
  int64_t gradient_count = 0;
  for (const auto& p : a.model->parameters().all()) {
    if (!p->grad.defined()) continue;
    const Tensor other = b.model->parameters().find(p->name)->grad;
    double difference = 0, size = 0;
    for (int64_t i = 0; i < other.count(); ++i)
      difference += std::pow(p->grad.f32()[i] - other.f32()[i], 2), size += std::pow(other.f32()[i], 2);
    EXPECT_LE(difference, 1e-10 * size) << p->name;
    ++gradient_count;
  }
  EXPECT_GE(gradient_count, 14);
}

// Loaded as in `makar sft --adapter qlora`, without `exact`: a matrix that is decoded to a block type is
// multiplied with integer products.
TEST_P(PrequantizedBase, AnAdapterTrainsAndReloads) {
  const LoadedModel loaded = load(prequantized_, false);
  const AdapterConfig config = attach_adapter(loaded);
  expect_training_and_loading(loaded, config, load(prequantized_, false), device_, 30, 30, 0.9f);
}

INSTANTIATE_TEST_SUITE_P(Forms, PrequantizedBase, testing::Values("nf4", "nf4_nested", "int8", "mxfp4"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace makar
