// The engine's contract: the results of a request do not depend on other requests, chunk sizes, pages, prefix
// reuse, preemption, drafts or threads. Random mixes of requests, each compared bit for bit with a run alone.
#include "infer/engine.h"

#include <cstdlib>

#include "infer/beam_job.h"
#include "infer/contrastive_job.h"
#include "infer/engine_fixture.h"

namespace makar {
namespace {

// Random adapters on every layer, which requests select.
void add_row_adapters(Model& model, size_t count) {
  uint64_t seed = 0;
  model.each_linear([&](const std::string& name, Linear& linear) {
    for (size_t i = 0; i < count; ++i) {
      const auto random = [&](const char* end, Shape shape) {
        Parameter* p = model.parameters().add(fmt::format("adapter.{}.{}{}", i, name, end), shape);
        p->value = Tensor::empty(shape);
        const Rng rng(++seed, Purpose::kSynthetic);
        for (int64_t j = 0; j < p->value.count(); ++j)
          p->value.f32()[j] = 0.4f * (rng.uniform(static_cast<uint64_t>(j)) - 0.5f);
        return p;
      };
      const int64_t rank = 2 + static_cast<int64_t>(i);
      linear.add_row_adapter(
          i, std::make_shared<Adapter>(Adapter{random(".a", {rank, linear.in()}),
                                               random(".b", {linear.out(), rank}), nullptr, 0.7f}));
    }
  });
}

// Random numbers of a trial, from one seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed, Purpose::kSynthetic) {}
  int64_t roll(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng_.uniform_double(next_++) * static_cast<double>(high - low + 1));
  }
  bool chance(double p) { return rng_.uniform_double(next_++) < p; }

 private:
  Rng rng_;
  uint64_t next_ = 0;
};

class EngineTrials : public testing::TestWithParam<const char*> {
 protected:
  explicit EngineTrials(const std::string& name = GetParam()) : loaded_(subject(name)) {
    add_row_adapters(*loaded_.model, 2);
  }

  std::shared_ptr<Job> random_job(Dice& dice, bool drafts) {
    const auto adapter = static_cast<int32_t>(dice.roll(-1, 1));
    const auto job = random_request(dice, drafts);
    job->adapter = adapter;
    return job;
  }

  // Prompts have common prefixes to share. In an encoder-decoder, the encoder reads them.
  std::shared_ptr<Job> random_request(Dice& dice, bool drafts) {
    const ModelSpec& spec = model_.spec();
    const int64_t max = longest(spec), kind = dice.roll(0, 8);
    const int64_t length = dice.chance(0.3) ? dice.roll(1, 30) : dice.roll(90, max - 20);
    std::vector<int64_t> prompt = random_ids(spec, length, static_cast<uint64_t>(dice.roll(0, 1)));
    const int64_t tail_length = dice.roll(0, std::min<int64_t>(length, 8));
    const auto tail = random_ids(spec, tail_length, static_cast<uint64_t>(dice.roll(10, 1000)));
    std::copy(tail.begin(), tail.end(), prompt.end() - tail_length);
    if (!spec.decoder) return std::make_shared<EncodeJob>(prompt, random_types(dice, length));
    std::vector<int64_t> source;
    std::shared_ptr<ImageInputs> images;
    if (spec.reads_images()) images = random_images(dice, prompt);
    if (spec.is_encoder_decoder()) {
      source = prompt;
      prompt = {spec.decoder_start, 4, 5};
      if (images) source.assign(static_cast<size_t>(spec.image_rows()), 0);
    }
    const auto job = job_of(dice, kind, std::move(prompt), drafts);
    job->source = std::move(source), job->images = std::move(images);
    return job;
  }

  // One of three images, or two of them; a decoder that reads them has image tokens in the prompt.
  std::shared_ptr<ImageInputs> random_images(Dice& dice, std::vector<int64_t>& prompt) {
    const ModelSpec& spec = model_.spec();
    const PatchSpec& patches = *spec.encoder->embedding.patches;
    const int64_t count = spec.image_input ? dice.roll(1, 2) : 1;
    Tensor pixels = Tensor::empty({count, 3, patches.image_height, patches.image_width});
    for (int64_t i = 0; i < count; ++i) {
      const Rng rng(static_cast<uint64_t>(dice.roll(1, 3)), Purpose::kSynthetic);
      for (int64_t j = 0, image_values = pixels.count() / count; j < image_values; ++j)
        pixels.f32()[i * image_values + j] = rng.uniform(static_cast<uint64_t>(j)) - 0.5f;
    }
    const auto images = std::make_shared<ImageInputs>(spec, pixels);
    if (!spec.image_input) return images;
    std::replace(prompt.begin(), prompt.end(), spec.image_input->token, int64_t{3});
    prompt.resize(std::max<size_t>(std::min<size_t>(prompt.size(), 115), 3), 4);
    prompt[1] = spec.image_input->token;
    if (count == 2) prompt[prompt.size() - 1] = spec.image_input->token;
    check(images->expand_tokens(spec, prompt).ok(), "one image token per image");
    return images;
  }

  static std::vector<int64_t> random_types(Dice& dice, int64_t length) {
    std::vector<int64_t> types;
    if (dice.chance(0.5))
      for (int64_t i = 0; i < length; ++i) types.push_back(dice.roll(0, 1));
    return types;
  }

  std::shared_ptr<Job> job_of(Dice& dice, int64_t kind, std::vector<int64_t> prompt, bool drafts) {
    const auto length = static_cast<int64_t>(prompt.size());
    if (kind == 0 && length > 1) {
      const int64_t from = dice.roll(1, length - 1);
      if (dice.chance(0.5)) return std::make_shared<ScoreJob>(prompt, from, 2);
      const std::vector<int64_t> prefix(prompt.begin(), prompt.begin() + from),
          rest(prompt.begin() + from, prompt.end());
      return std::make_shared<ScoreJob>(
          prefix, std::vector<std::vector<int64_t>>{rest, {rest.rbegin(), rest.rend()}, {rest[0]}, {}}, 2);
    }
    if (kind == 1) return std::make_shared<EncodeJob>(prompt);
    DecodingRequest shared;
    shared.prompt = std::move(prompt), shared.stop = {5, 7}, shared.logprobs = 2;
    shared.sampler.seed = static_cast<uint64_t>(dice.roll(0, 99));
    if (dice.chance(0.3)) shared.sampler.repetition_penalty = 1.2;
    if (kind == 2 || kind == 3) {
      BeamRequest r{shared};
      r.max_new_tokens = dice.roll(1, 15), r.answers = 2;
      r.beams = kind == 2 ? dice.roll(2, 4) : 4;
      if (kind == 3) r.groups = dice.roll(1, 2) * 2, r.diversity_penalty = 0.7;
      r.early_stop = static_cast<EarlyStop>(dice.roll(0, 2));
      return std::make_shared<BeamJob>(r);
    }
    if (kind == 4) {
      ContrastiveRequest r{shared};
      r.max_new_tokens = dice.roll(1, 12), r.candidates = dice.roll(2, 4);
      return std::make_shared<ContrastiveJob>(r);
    }
    SampleRequest r{shared};
    r.max_new_tokens = dice.roll(1, 20), r.answers = dice.roll(1, 4);
    r.sampler.temperature = dice.chance(0.3) ? 0.0 : 0.9;
    if (dice.chance(0.2)) r.stop_below = 0.02;
    if (dice.chance(0.2) && !model_.spec().image_input) r.window = 100;  // longer texts drop their older half
    if (drafts && dice.chance(0.5)) r.drafter = std::make_shared<LookupDrafter>(1, 3);
    return std::make_shared<SampleJob>(r);
  }

  // Only the cache dtypes and the context policy may change the results.
  EngineOptions random_result_options(Dice& dice) const {
    EngineOptions o;
    const DType types[] = {DType::kF32, DType::kF16, DType::kQ8_0};
    if (dice.chance(0.5)) o.cache = {types[dice.roll(0, 2)], types[dice.roll(0, 2)]};
    if (dice.chance(0.3) && supports_sinks_)
      o.context = {ContextPolicy::kSinks, dice.roll(60, 130), dice.roll(1, 5)};
    return o;
  }

  std::vector<double> transcript_alone(uint64_t seed, EngineOptions result_options) {
    Dice dice(seed);
    const auto job = random_job(dice, false);
    result_options.share_prefixes = false;
    Engine engine(model_, device_, result_options);
    engine.submit(job);
    engine.run();
    return transcript(*job);
  }

  void check_pages(Engine& engine, const std::vector<std::shared_ptr<Job>>& jobs) {
    int64_t expected_references = engine.prefix_pages();
    for (const auto& job : jobs)
      for (const Branch& branch : job->branches)
        if (branch.slot) {
          for (const KvCache::Page page : engine.cache().pages(*branch.slot))
            expected_references += page >= 0 ? 1 : 0;
          expected_references += static_cast<int64_t>(engine.cache().cross_pages(*branch.slot).size());
        }
    ASSERT_EQ(engine.cache().references(), expected_references);
    if (engine.cache().max_pages() > 0) ASSERT_LE(engine.cache().pages_used(), engine.cache().max_pages());
  }

  void trial(uint64_t seed) {
    Dice dice(seed);
    const EngineOptions result_options = random_result_options(dice);
    EngineOptions o = result_options;
    o.step_tokens = dice.chance(0.5) ? dice.roll(1, 40) : 512;
    o.share_prefixes = dice.chance(0.7);
    o.max_branches = dice.chance(0.3) ? dice.roll(1, 4) : 256;
    if (dice.chance(0.6)) o.max_pages = dice.roll(13, 16);  // the widest job needs four beams of three pages
    if (dice.chance(0.4)) {  // chunks of prompts sized by time: any size, changing from step to step
      o.decode_step_seconds = 1e-4 * static_cast<double>(dice.roll(1, 20));
      o.prompt_step_seconds = 1e-4 * static_cast<double>(dice.roll(1, 20));
    }
    CpuDevice device(dice.chance(0.5) ? 1 : 3);
    Engine engine(model_, device, o);
    std::vector<std::shared_ptr<Job>> jobs;
    std::vector<uint64_t> seeds;
    const int64_t count = dice.roll(2, 20);
    while (static_cast<int64_t>(jobs.size()) < count || engine.jobs() > 0) {
      if (static_cast<int64_t>(jobs.size()) < count && dice.chance(0.8)) {
        seeds.push_back(seed * 7919 + jobs.size());
        Dice job_dice(seeds.back());
        jobs.push_back(random_job(job_dice, true));
        jobs.back()->priority = dice.roll(0, 2);
        jobs.back()->salt = dice.chance(0.2) ? "other" : "";
        engine.submit(jobs.back());
      }
      engine.step();
      ASSERT_NO_FATAL_FAILURE(check_pages(engine, jobs)) << "trial " << seed;
    }
    for (size_t i = 0; i < jobs.size(); ++i)
      ASSERT_EQ(transcript(*jobs[i]), transcript_alone(seeds[i], result_options))
          << "trial " << seed << ", job " << i << (jobs[i]->error ? ": " + jobs[i]->error->text() : "");
    preempted_ += engine.stats().preemptions, reused_ += engine.stats().reused_tokens;
  }

  LoadedModel loaded_;
  const Model& model_ = *loaded_.model;
  const bool supports_sinks_ = check_context(model_.spec(), {ContextPolicy::kSinks, 60, 4}).ok();
  CpuDevice device_{2};
  int64_t preempted_ = 0, reused_ = 0;
};

TEST_P(EngineTrials, MixedRequestsEqualSeparateRuns) {
  const char* slow = std::getenv("MAKAR_SLOW");
  const bool is_main_model = std::string(GetParam()) == "small/llama";
  const uint64_t trials = slow && *slow == '1' ? (is_main_model ? 1000 : 200) : (is_main_model ? 60 : 12);
  for (uint64_t i = 1; i <= trials; ++i) ASSERT_NO_FATAL_FAILURE(trial(i));
  if (!model_.spec().decoder) return;
  EXPECT_GT(preempted_, 0) << "no trial ran out of pages";
  if (!model_.spec().is_encoder_decoder()) EXPECT_GT(reused_, 0) << "no trial shared a prefix";
}

// More answers than the cache can hold: later ones wait or are preempted.
TEST_P(EngineTrials, MoreAnswersThanPagesArePreempted) {
  const ModelSpec& spec = model_.spec();
  if (!spec.decoder) GTEST_SKIP() << "an encoder generates no answers";
  const auto text = random_ids(spec, 30, 3);
  const auto request = [&](int64_t first, int64_t answers) {
    SampleRequest r;
    r.prompt = spec.is_encoder_decoder() ? std::vector<int64_t>{spec.decoder_start} : text;
    r.max_new_tokens = std::min<int64_t>(longest(spec) - 31, 130), r.answers = answers, r.logprobs = 1;
    r.sampler.seed = static_cast<uint64_t>(first), r.sampler.temperature = 1.1;
    const auto job = std::make_shared<SampleJob>(r);
    if (spec.is_encoder_decoder()) job->source = text;
    if (spec.is_encoder_decoder() && spec.reads_images()) {
      Dice dice(5);
      std::vector<int64_t> empty_prompt;
      job->images = random_images(dice, empty_prompt);
      job->source.assign(static_cast<size_t>(spec.image_rows()), 0);
    }
    return job;
  };
  constexpr int64_t kAnswers = 12;
  std::vector<double> expected;
  for (int64_t i = 0; i < kAnswers; ++i) {
    const auto job = request(i, 1);
    Engine engine(model_, device_);
    engine.submit(job);
    engine.run();
    const auto results = transcript(*job);
    expected.insert(expected.end(), results.begin(), results.end());
  }
  for (const bool share : {true, false})
    for (const int64_t pages : {4, 7}) {
      EngineOptions o;
      o.max_pages = pages, o.share_prefixes = share;
      Engine engine(model_, device_, o);
      const auto job = request(0, kAnswers);
      engine.submit(job);
      while (engine.step()) ASSERT_NO_FATAL_FAILURE(check_pages(engine, {job}));
      ASSERT_FALSE(job->error.has_value()) << job->error->text();
      EXPECT_EQ(transcript(*job), expected) << pages << " pages";
      EXPECT_GT(engine.stats().preemptions, 0) << "no answer was preempted";
    }
  EngineOptions o;
  o.max_pages = 1;
  Engine engine(model_, device_, o);
  const auto job = request(0, kAnswers);
  engine.submit(job);
  engine.run();
  ASSERT_TRUE(job->error.has_value()) << "not even one answer fits";
}

// Rotary positions, experts, sliding windows, recurrent states, disentangled attention, relative position
// bias, encoder-decoder, encoder only, recurrent networks, images in the prompt and before a decoder.
INSTANTIATE_TEST_SUITE_P(Families, EngineTrials,
                         testing::Values("small/llama", "small/mixtral", "small/gemma2", "small/bloom",
                                         "small/bart", "small/bert", "small/gemma3_text", "small/gpt_oss",
                                         "small/qwen2_moe", "small/cohere2", "small/phi3",
                                         "small/deepseek_v3", "small/lstm", "small/gru-additive",
                                         "small/mamba", "small/mamba2", "small/lfm2", "small/deberta-v2",
                                         "small/llava", "small/captions"),
                         [](const auto& info) {
                           std::string name = std::string(info.param).substr(6);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace makar
