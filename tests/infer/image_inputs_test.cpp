// Images in the engine, against the forward pass of the whole sequence and the captions of transformers.
#include "infer/image_inputs.h"

#include <fstream>

#include "formats/safetensors.h"
#include "infer/engine_fixture.h"
#include "infer/generate.h"
#include "models/forward.h"

namespace makar {
namespace {

std::map<std::string, Tensor> golden_inputs(const std::string& name) {
  const auto file =
      Safetensors::open(std::string(MAKAR_TEST_GOLDEN) + "/models/" + name + "/golden.safetensors");
  check(file.ok(), "the fixture opens");
  std::map<std::string, Tensor> in;
  for (const std::string& tensor : (*file)->names())
    if (tensor.starts_with("in.")) in[tensor.substr(3)] = (*file)->tensor(tensor)->clone();
  return in;
}

// Greedy tokens, one whole forward pass each.
std::vector<int64_t> greedy_by_forward(const Model& model, Device& device, std::vector<int64_t> ids,
                                       const Tensor& pixels, int64_t count) {
  for (; count > 0; --count) {
    const auto out = forward_tensors(
        model,
        {{"input_ids", Tensor::from({1, static_cast<int64_t>(ids.size())}, std::span<const int64_t>(ids))},
         {"pixel_values", pixels}},
        {device}, "test");
    check(out.ok(), out.ok() ? "" : out.error().text());
    const Tensor& logits = out->at("logits");
    const float* last = logits.f32() + logits.count() - logits.dim(2);
    ids.push_back(std::max_element(last, last + logits.dim(2)) - last);
  }
  return ids;
}

TEST(Images, GreedyAnswersEqualTheForwardPass) {
  const LoadedModel loaded = subject("golden/llava");
  const Model& model = *loaded.model;
  CpuDevice device(1);
  const auto in = golden_inputs("llava");
  const Tensor &ids = in.at("input_ids"), &pixels = in.at("pixel_values");
  const int64_t time = ids.dim(1);
  ASSERT_EQ(ids.dim(0), pixels.dim(0));
  for (int64_t r = 0; r < ids.dim(0); ++r) {
    std::vector<int64_t> prompt(ids.i64() + r * time, ids.i64() + (r + 1) * time);
    std::erase(prompt, model.spec().pad);
    GenerateOptions o;
    o.max_new_tokens = 8, o.ignore_eos = true;
    o.images = std::make_shared<ImageInputs>(model.spec(), pixels.slice(r, r + 1).clone());
    ASSERT_TRUE(o.images->expand_tokens(model.spec(), prompt).ok());
    o.engine.step_tokens = 5;
    const auto answer = generate(model, device, prompt, o);
    ASSERT_TRUE(answer.ok()) << answer.error().text();
    EXPECT_EQ(*answer, greedy_by_forward(model, device, prompt, o.images->pixels, 8)) << "row " << r;
  }
}

TEST(Images, CaptionsEqualThoseOfTransformers) {
  const LoadedModel loaded = subject("golden/vit-gpt2-captions");
  const Model& model = *loaded.model;
  CpuDevice device(1);
  const Tensor pixels = golden_inputs("vit-gpt2-captions").at("pixel_values");
  const Json expected = Json::parse(std::ifstream(
      std::string(MAKAR_TEST_GOLDEN) + "/models/vit-gpt2-captions/golden.json"))["captions_greedy"];
  for (int64_t i = 0; i < pixels.dim(0); ++i) {
    GenerateOptions o;
    o.max_new_tokens = static_cast<int64_t>(expected[static_cast<size_t>(i)].size()) - 1;
    o.images = std::make_shared<ImageInputs>(model.spec(), pixels.slice(i, i + 1).clone());
    const auto answer = generate(model, device, {}, o);
    ASSERT_TRUE(answer.ok()) << answer.error().text();
    EXPECT_EQ(Json(*answer), expected[static_cast<size_t>(i)]);
  }
}

// A prompt with the same tokens shares pages only with the same image before it.
TEST(Images, PrefixesAreSharedByContent) {
  const LoadedModel loaded = subject("small/llava");
  const ModelSpec& spec = loaded.model->spec();
  CpuDevice device(1);
  Engine engine(*loaded.model, device);
  const auto run_with = [&](float shade) {
    const auto images = std::make_shared<ImageInputs>(spec, Tensor::full({1, 3, 48, 48}, shade));
    std::vector<int64_t> prompt = random_ids(spec, 150, 1);
    std::replace(prompt.begin(), prompt.end(), spec.image_input->token, int64_t{3});
    prompt[50] = spec.image_input->token;
    check(images->expand_tokens(spec, prompt).ok(), "one image token");
    SampleRequest r;
    r.prompt = prompt, r.max_new_tokens = 5, r.logprobs = 3, r.sampler.temperature = 0;
    const auto job = std::make_shared<SampleJob>(r);
    job->images = images;
    engine.submit(job);
    engine.run();
    return std::pair(transcript(*job), job->reused_tokens.value_or(0));
  };
  const auto first = run_with(0.3f), other = run_with(0.4f), repeated = run_with(0.3f);
  EXPECT_EQ(first.second, 0);
  EXPECT_EQ(other.second, 0) << "the image differs";
  EXPECT_EQ(repeated.second, KvCache::kPageRows);
  EXPECT_EQ(first.first, repeated.first);
  EXPECT_NE(first.first, other.first);
}

TEST(Images, WrongNumbersOfImagesAreErrors) {
  const LoadedModel llava = subject("small/llava"), captions = subject("small/captions"),
                    text = subject("small/llama");
  CpuDevice device(1);
  const auto expect_error = [&](const LoadedModel& m, std::vector<int64_t> prompt, int64_t images,
                                const std::string& part) {
    GenerateOptions o;
    o.max_new_tokens = 4;
    if (images > 0)
      o.images = std::make_shared<ImageInputs>(llava.model->spec(), Tensor::full({images, 3, 48, 48}, 0.1f));
    const auto answer = generate(*m.model, device, prompt, o);
    ASSERT_FALSE(answer.ok()) << part;
    EXPECT_NE(answer.error().text().find(part), std::string::npos) << answer.error().text();
  };
  expect_error(llava, {4, 59, 5}, 0, "has an image token (59), but no image is given");
  expect_error(text, {4, 5}, 1, "reads only text");
  expect_error(captions, {4, 5}, 1, "reads no text");
  expect_error(captions, {}, 0, "none is given");
  expect_error(captions, {}, 2, "several are given");
  ImageInputs two_images(llava.model->spec(), Tensor::full({2, 3, 48, 48}, 0.1f));
  std::vector<int64_t> prompt = {4, 59, 5};
  const Status status = two_images.expand_tokens(llava.model->spec(), prompt);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().text().find("has 1 image token (id 59), but 2 images are given"),
            std::string::npos)
      << status.error().text();
}

}  // namespace
}  // namespace makar
