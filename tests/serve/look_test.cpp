// Inspections (looks): every family can be inspected, the numbers of a Llama equal those of the engine, and
// limits are enforced.
#include "serve/page/look.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/file.h"
#include "infer/score_job.h"
#include "kernels/cpu_device.h"
#include "models/small_models.h"
#include "scratch_folder.h"
#include "serve/api/fields.h"
#include "text/base64.h"
#include "text/unicode.h"

namespace makar {
namespace {

// One token per character: 60 printable ones, the vocabulary size of the small models.
Json tiny_tokenizer() {
  Json vocab = Json::object();
  for (int i = 0; i < 60; ++i) vocab[std::string(1, static_cast<char>('A' + i))] = i;
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

class LookTest : public testing::TestWithParam<const char*> {
 protected:
  void load(const std::string& family) {
    const LoadedModel small = small_model(small_config(family));
    ASSERT_TRUE(save_model(folder_.path(), *small.model, *small.family).ok());
    ASSERT_TRUE(write_file(folder_ / "tokenizer.json", tiny_tokenizer().dump()).ok());
    auto language = LanguageModel::open(folder_.path(), device_);
    ASSERT_TRUE(language.ok()) << language.error().text();
    auto served = ServedModel::of(std::move(*language), {}, "tiny", folder_.path());
    ASSERT_TRUE(served.ok()) << served.error().text();
    model_.emplace(std::move(*served));
  }
  Result<Json> look(const Json& body) {
    MAKAR_TRY(const Json parsed, read_body(body.dump()));
    MAKAR_TRY(LookRequest request, read_look(parsed));
    MAKAR_RETURN_IF_ERROR(prepare_look(request, *model_));
    return look_inside(request, *model_, device_);
  }
  std::string error_place(const Json& body) {
    const auto found = look(body);
    return found.ok() ? "fine" : found.error().place;
  }

  ScratchFolder folder_;
  CpuDevice device_{2};
  std::optional<ServedModel> model_;
};

// Expects the weights of every row, [layer][head][row], to sum to 1.
void expect_rows_of_one(const Json& attention) {
  const int64_t heads = attention["heads"], rows = attention["rows"], keys = attention["keys"];
  ASSERT_EQ(attention["layers"].size(), attention["data"].size());
  for (const Json& layer : attention["data"]) {
    const std::string data = *decode_base64(layer.get<std::string>());
    ASSERT_EQ(data.size(), static_cast<size_t>(2 * heads * rows * keys));
    for (int64_t r = 0; r < heads * rows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < keys; ++k) {
        const size_t at = static_cast<size_t>(2 * (r * keys + k));
        sum += static_cast<uint8_t>(data[at]) + 256.0 * static_cast<uint8_t>(data[at + 1]);
      }
      EXPECT_NEAR(sum / 65535, 1, static_cast<double>(keys) / 65535);
    }
  }
}

TEST_P(LookTest, ShowsEveryFamily) {
  load(GetParam());
  const std::string family = GetParam();
  const bool is_encoder_decoder = family == "t5" || family == "bart", masked = family == "bert";
  const auto found = look({{"prompt", "MAKAR"},
                           {"completion", is_encoder_decoder ? "RHYME" : ""},
                           {"what", {"next", "probabilities", "attention", "positions", "routing"}},
                           {"top", 10}});
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ((*found)["tokens"].size(), 5u);
  EXPECT_EQ((*found)["tokens"][0]["text"], "M");
  expect_rows_of_one((*found)["attention"]);
  EXPECT_EQ(found->contains("routing"), family == "mixtral");
  EXPECT_FALSE((*found)["positions"].empty());
  EXPECT_EQ(found->contains("probabilities"), !masked);
  if (is_encoder_decoder) {
    EXPECT_EQ((*found)["attention"]["rows"], 6);  // the start token and five letters
    EXPECT_EQ((*found)["attention"]["keys"], 5);
    for (const char* of : {"encoder", "decoder"}) {
      const auto other =
          look({{"prompt", "MAKAR"}, {"completion", "AB"}, {"what", {"attention"}}, {"attention_of", of}});
      ASSERT_TRUE(other.ok());
      expect_rows_of_one((*other)["attention"]);
      EXPECT_EQ((*other)["attention"]["rows"], *of == 'e' ? 5 : 3);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Families, LookTest,
                         testing::Values("gpt2", "llama", "mixtral", "gemma2", "bloom", "bert", "t5",
                                         "bart"));

TEST_F(LookTest, NumbersEqualTheEngines) {
  load("llama");
  const auto found = look({{"prompt", "THEMAKER"}, {"what", {"next", "probabilities"}}, {"top", 4}});
  ASSERT_TRUE(found.ok()) << found.error().text();
  std::vector<int64_t> ids;
  for (const Json& token : (*found)["tokens"]) ids.push_back(token["id"]);
  const int64_t best = (*found)["next"][0]["ids"][0];
  ids.push_back(best);
  Engine engine(model_->language.model(), device_);
  const auto job = std::make_shared<ScoreJob>(ids, 1, 4);
  engine.submit(job);
  engine.run();
  ASSERT_FALSE(job->error);
  for (size_t i = 1; i + 1 < ids.size(); ++i)
    EXPECT_EQ((*found)["probabilities"][i]["logprob"].get<float>(), job->scores()[i - 1].chosen) << i;
  // The whole distribution from the largest logits and the histogram of the others.
  const Json& next = (*found)["next"][0];
  const double max = next["logits"][0];
  double sum = 0;
  int64_t count = 0;
  for (const Json& logit : next["logits"]) sum += std::exp(logit.get<double>() - max), ++count;
  for (const Json& bin : next["rest"])
    sum += bin[1].get<double>() * std::exp(bin[0].get<double>() - max), count += bin[1].get<int64_t>();
  EXPECT_EQ(count, 60);
  EXPECT_NEAR(-std::log(sum), static_cast<double>(job->scores().back().chosen), 1e-3);
  EXPECT_EQ(job->scores().back().rank, 0);
  // With all logits listed there is no histogram.
  const auto all = look({{"prompt", "THEMAKER"}, {"what", {"next"}}});
  ASSERT_TRUE(all.ok());
  EXPECT_EQ((*all)["next"][0]["logits"].size(), 60u);
  EXPECT_TRUE((*all)["next"][0]["rest"].empty());
}

TEST_F(LookTest, LayersCanBeSelected) {
  load("llama");
  const auto all = look({{"prompt", "ABCD"}, {"what", {"attention"}}});
  const auto one = look({{"prompt", "ABCD"}, {"what", {"attention"}}, {"layers", {1, 1}}});
  ASSERT_TRUE(all.ok() && one.ok());
  EXPECT_EQ((*one)["attention"]["layers"], Json::array({1}));
  EXPECT_EQ((*one)["attention"]["data"][0], (*all)["attention"]["data"][1]);
}

TEST_F(LookTest, RejectsValuesOutOfRange) {
  load("llama");
  EXPECT_EQ(error_place({{"prompt", std::string(300, 'A')}}), "prompt");  // the model has 256 positions
  EXPECT_EQ(error_place({{"prompt", std::string(1 << 17, 'A')}}), "prompt");
  EXPECT_EQ(error_place({{"prompt", "A"}, {"what", {"everything"}}}), "what");
  EXPECT_EQ(error_place({{"prompt", "A"}, {"what", 3}}), "what");
  EXPECT_EQ(error_place({{"prompt", "A"}, {"what", {"attention"}}, {"layers", {2}}}), "layers");
  EXPECT_EQ(error_place({{"prompt", "A"}, {"what", {"attention"}}, {"layers", {1e9}}}), "layers");
  EXPECT_EQ(error_place({{"prompt", "A"}, {"what", {"attention"}}, {"attention_of", "cross"}}),
            "attention_of");
  EXPECT_EQ(error_place({{"prompt", "A"}, {"top", 0}}), "top");
  EXPECT_EQ(error_place({{"prompt", "A"}, {"messages", Json::array({{{"role", "user"}, {"content", "A"}}})}}),
            "prompt");
  EXPECT_EQ(error_place({{"messages", Json::array({{{"role", "user"}, {"content", "A"}}})}}),
            "messages");  // no template
  EXPECT_EQ(error_place({{"prompt", 5}}), "prompt");
}

// Looks run one at a time on a separate thread; when the queue is full, the next is rejected. Looks of
// disconnected clients are dropped.
TEST_F(LookTest, AFullQueueRejectsTheNext) {
  load("llama");
  LookRequest request;
  request.prompt = "ab", request.next = true, request.top = 1;
  ASSERT_TRUE(prepare_look(request, *model_).ok());
  std::atomic<bool> released{false};
  std::atomic<int> done{0};
  const auto disconnected = std::make_shared<std::atomic<bool>>(false);
  LookRunner runner;
  const auto wait = [&](const Result<Json>& found) {
    EXPECT_TRUE(found.ok());
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++done;
  };
  int accepted = 0;
  while (accepted < 1000) {
    WorkItem item;
    item.cancelled = accepted > 0 ? disconnected : nullptr;
    if (!runner.post(std::move(item), request, *model_, -1, nullptr, wait)) break;
    ++accepted;
  }
  EXPECT_EQ(accepted, 128);
  *disconnected = true;
  released = true;
  WorkItem last;
  for (int i = 0; i < 5000 && !runner.post(last, request, *model_, -1, nullptr, wait); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < 5000 && done < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(done, 2) << "the first and the last";
}

}  // namespace
}  // namespace makar
