// Decoding on the device, greedy and sampled, gives the tokens of decoding with logits on the host: in f32
// and bf16, on the CPU, the fence device and a GPU if there is one, for requests that start, end and are
// cancelled at different times, beside requests that sample.
#include "infer/decode_steps.h"

#include "infer/engine_fixture.h"
#include "kernels/block_layout.h"
#include "kernels/device.h"
#include "real_gpu.h"

namespace makar {
namespace {

// A matrix as Q8_0.
Tensor as_q8_0(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape(), DType::kQ8_0);
  auto* blocks = reinterpret_cast<kernels::BlockQ8_0*>(y.raw());
  for (int64_t i = 0; i < x.count() / 32; ++i) {
    float largest = 0;
    for (int64_t j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(x.f32()[i * 32 + j]));
    blocks[i].d.set(largest / 127);
    for (int64_t j = 0; j < 32; ++j)
      blocks[i].qs[j] =
          static_cast<int8_t>(largest > 0 ? std::lround(x.f32()[i * 32 + j] / largest * 127) : 0);
  }
  return y;
}

using Case = std::tuple<std::string, std::string, bool>;
class DecodeStepsTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto opened = open_device(std::get<0>(GetParam()), 2);
    if (!opened.ok()) GTEST_SKIP() << opened.error().text();
    device_ = std::move(*opened);
    const std::string& name = std::get<1>(GetParam());
    const bool blocks = name.ends_with("_q8_0");
    loaded_ = subject(blocks ? name.substr(0, name.size() - 5) : name);
    Model& model = *loaded_.model;
    for (const auto& p : model.parameters().all())
      if (blocks && p->value.rank() == 2 && p->value.dim(1) % 32 == 0) p->value = as_q8_0(p->value);
    model.parameters().to(device_->memory());
    // The experts of rows are chosen on the device if their weights are packed.
    const bool bf16 = std::get<2>(GetParam());
    if (bf16 || model.spec().decoder->routed())
      model.pack(*device_, false, bf16 ? DType::kBF16 : DType::kF32);
  }

  SampleRequest request(size_t i) const {
    const ModelSpec& spec = loaded_.model->spec();
    SampleRequest r;
    const auto number = static_cast<int64_t>(i);
    r.prompt = random_ids(spec, std::min<int64_t>(5 + number * 23 % 90, longest(spec) - 30), 40 + i);
    r.max_new_tokens = 3 + number * 7 % 21;
    if (i % 3 == 1) r.stop = random_ids(spec, 12, 90 + i);
    if (i % 5 == 4) r.answers = 2;
    if (i % 3 == 2) r.sampler.temperature = 0.7 + 0.1 * static_cast<double>(i % 5), r.sampler.seed = i;
    if (i % 6 == 2) r.sampler.top_k = 20, r.sampler.top_p = 0.9, r.sampler.min_p = 0.02;
    if (i % 8 == 5) r.sampler.typical_p = 0.9;  // not known to devices
    return r;
  }

  std::vector<std::vector<double>> run(bool device_steps, size_t count, int64_t max_pages = 0) {
    EngineOptions o;
    o.device_steps = device_steps, o.max_pages = max_pages;
    Engine engine(*loaded_.model, *device_, o);
    std::vector<std::shared_ptr<SampleJob>> jobs;
    for (size_t i = 0; i < count; ++i) jobs.push_back(std::make_shared<SampleJob>(request(i)));
    for (size_t i = 0; i < count; ++i) {
      engine.submit(jobs[i]);
      for (size_t s = 0; s < i * 5 % 9; ++s) engine.step();
      if (i % 4 == 3) engine.cancel(*jobs[i - 1]);
    }
    engine.run();
    std::vector<std::vector<double>> out;
    for (size_t i = 0; i < count; ++i)
      if (i % 4 != 2) out.push_back(transcript(*jobs[i]));
    EXPECT_EQ(engine.cache().pages_used(), engine.prefix_pages());
    return out;
  }

  std::unique_ptr<Device> device_;
  LoadedModel loaded_;
};
INSTANTIATE_TEST_SUITE_P(Devices, DecodeStepsTest,
                         testing::Combine(testing::Values("cpu", "fence", "cuda"),
                                          testing::Values("small/llama", "small/llama_q8_0", "small/gpt2",
                                                          "small/gemma3_text", "small/mixtral",
                                                          "small/mixtral_q8_0", "small/deepseek_v3"),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param).substr(6) +
                                  (std::get<2>(info.param) ? "_bf16" : "_f32");
                         });

TEST_P(DecodeStepsTest, TokensEqualThoseOfLogitsOnTheHost) {
  ASSERT_TRUE(DecodeSteps::supports(*loaded_.model));
  const bool slow = device_->name() != "cpu" && !test::is_real_gpu(*device_);
  const size_t count = slow ? 6 : 24;
  const auto expected = run(false, count);
  EXPECT_EQ(run(true, count), expected);
  if (!slow) EXPECT_EQ(run(true, count, 7), expected) << "with few pages";
}

TEST_P(DecodeStepsTest, AStepStartsBeforeTheTokensOfTheLastOneAreTaken) {
  EngineOptions o;
  o.device_steps = true;
  Engine engine(*loaded_.model, *device_, o);
  SampleRequest r = request(0);
  r.max_new_tokens = 12;
  const auto job = std::make_shared<SampleJob>(r);
  engine.submit(job);
  int64_t steps = 0;
  while (engine.step()) ++steps;
  EXPECT_EQ(steps, 12);  // the prompt, then one per token: none is computed after the last
  EXPECT_EQ(job->answers()[0].tokens.size(), 12u);
}

}  // namespace
}  // namespace makar
