// Conversion between folders, GGUF and llama2.c checkpoints, with tokenizers and templates.
#include <gtest/gtest.h>

#include "base/file.h"
#include "convert/folder.h"
#include "convert/gguf_model.h"
#include "convert/tokenizer_fields.h"
#include "formats/llama2c.h"
#include "infer/generate.h"
#include "kernels/cpu_device.h"
#include "models/load.h"
#include "models/tokenizer_hash.h"
#include "quant/calibrate.h"
#include "quant/mix.h"
#include "quant/report.h"
#include "scratch_folder.h"
#include "text/tokenizer.h"

namespace makar {
namespace {

const std::string kLlama = std::string(MAKAR_TEST_GOLDEN) + "/models/llama";

Status write_as(const std::string& from, const std::string& to, const char* type, ThreadPool& pool) {
  MAKAR_TRY(GgufModel model, open_as_gguf(from));
  MAKAR_TRY(const Mix mix, Mix::find(type, model.fields, model.tensors));
  retype(model, mix, pool);
  return write_gguf(to, model.fields, model.tensors);
}

TEST(Convert, AFolderRoundTripsThroughGguf) {
  ScratchFolder folder;
  ThreadPool pool(2);
  ASSERT_TRUE(write_as(kLlama, folder / "a.gguf", "f32", pool).ok());
  const auto source = ModelSource::open(folder / "a.gguf");
  ASSERT_TRUE(source.ok()) << source.error().text();
  const auto warnings = write_folder(*source, folder / "back", std::nullopt, pool);
  ASSERT_TRUE(warnings.ok()) << warnings.error().text();
  EXPECT_EQ(warnings->size(), 1u);  // no tokenizer
  const auto a = WeightFiles::open(kLlama), b = WeightFiles::open(folder / "back");
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->names().size(), b->names().size());
  for (const std::string& name : a->names()) {
    const Tensor x = *a->tensor(name), y = *b->tensor(name);
    ASSERT_EQ(x.shape(), y.shape());
    EXPECT_EQ(std::memcmp(x.raw(), y.raw(), x.bytes()), 0) << name;
  }
}

TEST(Convert, EveryTypeLoadsAgain) {
  ScratchFolder folder;
  ThreadPool pool(2);
  CpuDevice device(pool);
  const auto original = load_model(kLlama);
  ASSERT_TRUE(original.ok());
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 60; ++i) ids.push_back(3 + i * 7 % 300);
  double last = -1;
  for (const char* type : {"f32", "f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q5_1", "q4_0"}) {
    const std::string path = folder / (std::string(type) + ".gguf");
    const Status written = write_as(kLlama, path, type, pool);
    ASSERT_TRUE(written.ok()) << written.error().text();
    const auto loaded = load_model(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    const auto d = compare_models(*original->model, *loaded->model, ids, 32, device, pool);
    ASSERT_TRUE(d.ok());
    EXPECT_EQ(d->tokens, 58);
    EXPECT_LT(d->kl, 0.15) << type;
    if (last < 0) EXPECT_EQ(d->kl, 0);
    last = d->kl;
  }
}

TEST(Convert, CalibrationCoversEveryMatrix) {
  CpuDevice device(2), four_threads(4);
  const auto loaded = load_model(kLlama);
  ASSERT_TRUE(loaded.ok());
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 100; ++i) ids.push_back(3 + i * 11 % 300);
  const auto c = calibrate(*loaded, ids, device, {32, true});
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->importance.size(), 2u * 7 + 1);
  const auto& squares = c->importance.at("blk.0.attn_q.weight");
  const Tensor& gram = c->gram.at("blk.0.attn_q.weight");
  ASSERT_EQ(gram.shape(), Shape({64, 64}));
  EXPECT_NEAR(gram.f32()[65], squares[1], 0.01 * squares[1] + 0.01);
  const Tensor a = c->gram.at("blk.1.ffn_down.weight"),
               b = calibrate(*loaded, ids, four_threads, {32, true})->gram.at("blk.1.ffn_down.weight");
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0);
}

TEST(Convert, AChangedTokenizerGivesWarnings) {
  ScratchFolder folder;
  ThreadPool pool(1);
  ASSERT_TRUE(write_as(kLlama, folder / "a.gguf", "f32", pool).ok());
  auto model = open_as_gguf(folder / "a.gguf");
  ASSERT_TRUE(model.ok());
  model->fields.set("tokenizer.ggml.model", GgufValue::text("llama"));
  model->fields.set("tokenizer.chat_template", GgufValue::text("{{ messages }}"));
  put_tokenizer_hashes(model->fields);
  ASSERT_TRUE(write_gguf(folder / "b.gguf", model->fields, model->tensors).ok());
  EXPECT_TRUE(load_model(folder / "b.gguf")->warnings.empty());
  model->fields.set("tokenizer.chat_template", GgufValue::text("{{ other }}"));
  model->fields.erase("tokenizer.ggml.model");
  ASSERT_TRUE(write_gguf(folder / "c.gguf", model->fields, model->tensors).ok());
  const auto warnings = load_model(folder / "c.gguf")->warnings;
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("tokenizer is missing"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("chat template was changed"), std::string::npos) << warnings[1];
}

std::string assets(const std::string& name) {
  const char* folder = std::getenv("MAKAR_ASSETS");
  return std::string(folder ? folder : "../shared/assets") + "/" + name;
}

// Greedy, from the start token.
std::string story(const std::string& path, Device& device, int64_t tokens) {
  const auto loaded = load_model(path);
  check(loaded.ok(), loaded.ok() ? "" : loaded.error().text());
  GenerateOptions options;
  options.max_new_tokens = tokens;
  const auto ids = generate(*loaded->model, device, {1}, options);
  const auto tokenizer = Tokenizer::load(path);
  check(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().text());
  const std::vector<uint32_t> out(ids->begin() + 1, ids->end());
  return tokenizer->decode(out, true);
}

TEST(Convert, Stories260KGeneratesTheExpectedText) {
  const std::string from = assets("weights/stories260K/");
  if (!is_file(from + "stories260K.bin")) GTEST_SKIP() << "no " << from;
  const std::string expected = *read_file(from + "expected_greedy_200.txt");
  ScratchFolder folder;
  ThreadPool pool(2);
  CpuDevice device(pool);
  const auto file = open_checkpoint(from + "stories260K.bin", from + "tok512.bin");
  ASSERT_TRUE(file.ok()) << file.error().text();
  const auto source = ModelSource::of(*file);
  ASSERT_TRUE(source.ok()) << source.error().text();
  ASSERT_TRUE(write_folder(*source, folder / "hf", std::nullopt, pool).ok());
  EXPECT_EQ(story(folder / "hf", device, 200), expected);
  ASSERT_TRUE(write_as(folder / "hf", folder / "f16.gguf", "f16", pool).ok());
  EXPECT_EQ(story(folder / "f16.gguf", device, 200), expected);
}

TEST(Convert, TokenizersRoundTripThroughGguf) {
  const std::string hf = assets("tokenizers/hf");
  if (!is_folder(hf)) GTEST_SKIP() << "no " << hf;
  const std::string text =
      "Hello  WORLD's 3.14159 don't\n\n\t na\u00efve \u4f60\u597d \U0001F600 <a> 1,000 x=y;\r\n end";
  for (const char* name : {"gpt2", "qwen2_5", "llama2", "gemma2"}) {
    ScratchFolder from;
    const std::string unpack = fmt::format(
        "cp {0}/{1}/*.json {2}/ 2>/dev/null; gzip -dc {0}/{1}/tokenizer.json.gz > {2}/tokenizer.json", hf,
        name, from.path());
    ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;
    const auto original = Tokenizer::load(from.path());
    ASSERT_TRUE(original.ok()) << original.error().text();
    ModelSpec spec;
    spec.vocab = static_cast<int64_t>(original->vocab_size());
    GgufFields fields;
    const auto found = put_tokenizer(from.path(), spec, fields);
    ASSERT_TRUE(found.ok() && *found) << (found.ok() ? "" : found.error().text());
    ScratchFolder folder;
    const auto written = write_tokenizer(fields, folder.path());
    ASSERT_TRUE(written.ok()) << written.error().text();
    const auto back = Tokenizer::load(folder.path());
    ASSERT_TRUE(back.ok()) << back.error().text();
    EXPECT_EQ(original->encode(text)->ids, back->encode(text)->ids) << name;
  }
}

TEST(Llama2c, WrongFilesAreErrors) {
  const auto parse = [](const std::string& bytes) {
    auto owner = std::make_shared<std::string>(bytes);
    return parse_llama2c(std::as_bytes(std::span(owner->data(), owner->size())), owner, "x.bin");
  };
  std::string sizes(28, '\0');
  const auto with = [&](std::array<int32_t, 7> n) {
    std::memcpy(sizes.data(), n.data(), 28);
    return parse(sizes);
  };
  EXPECT_NE(parse("abc").error().text().find("has 3 bytes"), std::string::npos);
  EXPECT_NE(with({0x616b3432, 3, 1, 1, 1, 1, 1}).error().text().find("version 3"), std::string::npos);
  EXPECT_NE(with({-4, 3, 1, 2, 1, 5, 2}).error().text().find("-4 as its width"), std::string::npos);
  EXPECT_NE(with({4, 3, 1, 3, 1, 5, 2}).error().text().find("3 heads"), std::string::npos);
  EXPECT_NE(with({1 << 20, 1 << 20, 1024, 2, 1, 1 << 23, 1 << 24}).error().text().find("implies"),
            std::string::npos);
  EXPECT_NE(with({4, 3, 1, 2, 1, 5, 2}).error().text().find("has 28 bytes but"), std::string::npos);
}

}  // namespace
}  // namespace makar
