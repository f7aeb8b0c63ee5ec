// Inference in bf16 on the CPU, the fence device and a GPU if there is one. The logits of a token are the
// same bits in training (weights rounded at each use, no cache) and in inference (weights packed, with a
// cache): whole, in chunks, token by token and in a batch. So the probabilities of trainer and sampler agree
// exactly.
#include "kernels/device.h"
#include "models/subjects.h"
#include "ops/bf16.h"

namespace makar {
namespace {

Tensor logits_bf16(const Model& model, Device& device, const Batch& batch, KvCache* cache = nullptr) {
  Context ctx{device};
  ctx.activations = DType::kBF16;
  ForwardContext f{ctx, cache};
  return model.lm_logits(ctx, model.decode(f, batch, {}, nullptr)).host();
}

using Case = std::tuple<std::string, std::string>;
class BitsBf16 : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto opened = open_device(std::get<0>(GetParam()), 2);
    if (!opened.ok()) GTEST_SKIP() << opened.error().text();
    device_ = std::move(*opened);
    loaded_ = subject(std::get<1>(GetParam()));
    loaded_.model->parameters().to(device_->memory());
    ids_ = random_ids(spec(), longest(spec()), 1);
    batch_.add(ids_);
  }
  Model& model() { return *loaded_.model; }
  const ModelSpec& spec() { return loaded_.model->spec(); }
  KvCache make_cache(size_t slots) {
    return KvCache(*spec().decoder, slots, 0, {DType::kBF16, DType::kBF16}, device_->memory());
  }

  std::unique_ptr<Device> device_;
  LoadedModel loaded_;
  std::vector<int64_t> ids_;
  Batch batch_;
};
INSTANTIATE_TEST_SUITE_P(
    Devices, BitsBf16,
    testing::Combine(testing::Values("cpu", "fence", "cuda"),
                     testing::Values("golden/gpt2", "golden/llama", "small/gpt2", "small/llama",
                                     "small/gemma2", "small/gemma3_text", "small/gpt_oss", "small/bloom",
                                     "small/olmo2", "small/mixtral", "small/deepseek_v3", "small/lfm2")),
    [](const auto& info) {
      std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

TEST_P(BitsBf16, TrainingLogitsEqualPackedCachedChunks) {
  const Tensor training_logits = logits_bf16(model(), *device_, batch_);
  Context f32{*device_};
  ForwardContext f{f32};
  const Tensor exact = model().lm_logits(f32, model().decode(f, batch_, {}, nullptr)).host();
  EXPECT_GT(relative_error(training_logits, exact), 0.0) << "nothing was rounded";
  EXPECT_LT(relative_error(training_logits, exact), 0.1);
  model().pack(*device_, false, DType::kBF16);
  EXPECT_EQ(model().activations(), DType::kBF16);
  EXPECT_TRUE(same_bits(logits_bf16(model(), *device_, batch_), training_logits)) << "packed";
  const auto length = static_cast<int64_t>(ids_.size());
  for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}, length}) {
    if (chunk == 1 && std::get<0>(GetParam()) == "fence") continue;  // slow
    KvCache cache = make_cache(1);
    for (int64_t past = 0; past < length; past += chunk) {
      const int64_t end = std::min(past + chunk, length);
      Batch part;
      part.add({ids_.begin() + past, ids_.begin() + end}, past);
      part.sequences[0].past = past;
      ASSERT_TRUE(
          same_bits(logits_bf16(model(), *device_, part, &cache), training_logits.slice(past, end).clone()))
          << "chunks of " << chunk << " at " << past;
    }
  }
}

// 20 sequences of different lengths decode together; each has the same logits as its full text alone.
TEST_P(BitsBf16, BatchedSequencesEqualEachAlone) {
  if (std::get<0>(GetParam()) == "fence") GTEST_SKIP() << "the fence device has the kernels of the CPU";
  model().pack(*device_, false, DType::kBF16);
  constexpr size_t kSequences = 20;
  KvCache cache = make_cache(kSequences);
  Batch prefill, decode;
  std::vector<std::vector<int64_t>> texts;
  for (size_t i = 0; i < kSequences; ++i) {
    texts.push_back(random_ids(spec(), 2 + static_cast<int64_t>(i * 9) % (longest(spec()) - 2), 70 + i));
    const auto last = static_cast<int64_t>(texts[i].size()) - 1;
    prefill.add({texts[i].begin(), texts[i].end() - 1}), prefill.sequences.back().slot = i;
    decode.add({texts[i].back()}, last);
    decode.sequences.back().past = last, decode.sequences.back().slot = i;
  }
  const Tensor first = logits_bf16(model(), *device_, prefill, &cache),
               next = logits_bf16(model(), *device_, decode, &cache);
  for (size_t i = 0; i < kSequences; ++i) {
    Batch single;
    single.add(texts[i]);
    const Tensor expected = logits_bf16(model(), *device_, single);
    const auto last = static_cast<int64_t>(texts[i].size()) - 1, row = static_cast<int64_t>(i);
    EXPECT_TRUE(same_bits(rows_of(first, prefill.sequences[i]).clone(), expected.slice(0, last).clone()))
        << "prefill " << i;
    EXPECT_TRUE(same_bits(next.slice(row, row + 1).clone(), expected.slice(last, last + 1).clone()))
        << "decode " << i;
  }
}

}  // namespace
}  // namespace makar
