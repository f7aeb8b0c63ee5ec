// With a model packed for bf16, the engine's probabilities equal those of training in bf16 bit for bit: for a
// decoder, an encoder-decoder and a captioning model.
#include "infer/engine_fixture.h"
#include "infer/logprobs.h"
#include "models/forward.h"

namespace makar {
namespace {

class EngineBf16 : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, EngineBf16,
                         testing::Values("small/llama", "small/bart", "small/t5", "small/captions"),
                         [](const auto& info) { return std::string(info.param).substr(6); });

TEST_P(EngineBf16, ProbabilitiesEqualThoseOfTraining) {
  LoadedModel loaded = subject(GetParam());
  Model& model = *loaded.model;
  const ModelSpec& spec = model.spec();
  CpuDevice device{2};
  const std::vector<int64_t> target = {std::max<int64_t>(spec.decoder_start, 0), 4, 9, 5, 6, 8};

  Batch source, rows;
  std::shared_ptr<ImageInputs> images;
  std::vector<int64_t> source_ids;
  if (spec.reads_images()) {
    const PatchSpec& patches = *spec.encoder->embedding.patches;
    Tensor pixels = Tensor::empty({1, 3, patches.image_height, patches.image_width});
    const Rng rng(3, Purpose::kSynthetic);
    for (int64_t i = 0; i < pixels.count(); ++i)
      pixels.f32()[i] = rng.uniform(static_cast<uint64_t>(i)) - 0.5f;
    images = std::make_shared<ImageInputs>(spec, pixels);
    source = pixel_batch(spec, pixels);
    source_ids.assign(static_cast<size_t>(spec.image_rows()), 0);
  } else if (spec.is_encoder_decoder()) {
    source.add(source_ids = random_ids(spec, 20, 7));
  }
  rows.add(target);
  const auto training_logits = [&](DType activations) {
    Context ctx{device};
    ctx.activations = activations;
    ForwardContext f{ctx};
    const Tensor encoded = spec.is_encoder_decoder() ? model.encode(f, source) : Tensor();
    return model.lm_logits(ctx, model.decode(f, rows, encoded, spec.is_encoder_decoder() ? &source : nullptr))
        .host();
  };
  const Tensor expected = training_logits(DType::kBF16), exact = training_logits(DType::kF32);
  EXPECT_FALSE(same_bits(expected, exact)) << "nothing was rounded";

  model.pack(device, false, DType::kBF16);
  Engine engine(model, device, {});
  const auto job = std::make_shared<ScoreJob>(target, 1);
  job->source = source_ids, job->images = images;
  engine.submit(job);
  engine.run();
  ASSERT_FALSE(job->error.has_value()) << job->error->text();
  ASSERT_EQ(job->scores().size(), target.size() - 1);
  for (size_t i = 0; i + 1 < target.size(); ++i) {
    const auto row = expected.span().subspan(i * static_cast<size_t>(expected.dim(1)),
                                             static_cast<size_t>(expected.dim(1)));
    EXPECT_EQ(job->scores()[i].chosen, logprobs(row, target[i + 1], 0)->chosen) << "token " << i + 1;
  }
}

}  // namespace
}  // namespace makar
