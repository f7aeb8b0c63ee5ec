// Injected faults: a step that hangs, a step that throws, no memory for an engine, weights that are NaN.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "kernels/cpu_device.h"
#include "serve/service.h"

namespace makar {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int64_t kPoison = 300;  // the token whose embedding is NaN in a poisoned model

// The golden llama with a tokenizer of single letters.
class TinyModel {
 public:
  explicit TinyModel(bool poisoned) {
    static std::atomic<int> count{0};
    folder_ = fs::temp_directory_path() / fmt::format("makar-fault-{}-{}", getpid(), count++);
    fs::create_directories(folder_);
    const fs::path golden = fs::path(MAKAR_TEST_GOLDEN) / "models/llama";
    for (const char* name : {"config.json", "model.safetensors"})
      fs::copy_file(golden / name, folder_ / name, fs::copy_options::overwrite_existing);
    Json vocab = Json::object();
    for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = 40 + i;
    std::ofstream(folder_ / "tokenizer.json")
        << Json({{"version", "1.0"},
                 {"added_tokens", Json::array()},
                 {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}});
    if (poisoned) poison(golden / "model.safetensors");
  }
  ~TinyModel() { fs::remove_all(folder_); }
  std::string path() const { return folder_.string(); }

 private:
  void poison(const fs::path& weights) const {
    auto text = read_file(weights.string());
    ASSERT_TRUE(text.ok());
    uint64_t header = 0;
    std::memcpy(&header, text->data(), sizeof(header));
    const Json tensors = Json::parse(text->substr(8, header));
    const Json& embedding = tensors["model.embed_tokens.weight"];
    const size_t rows = embedding["shape"][0], from = embedding["data_offsets"][0],
                 to = embedding["data_offsets"][1], row = (to - from) / rows;
    std::fill_n(text->begin() + static_cast<int64_t>(8 + header + from + row * kPoison), row, '\xff');
    std::ofstream(folder_ / "model.safetensors", std::ios::binary) << *text;
  }
  fs::path folder_;
};

// Stores the response of a request; a test can wait for it.
class StoredReply : public HttpReply {
 public:
  void send(HttpResponse response) override {
    const std::lock_guard lock(mutex_);
    response_ = std::move(response);
    sent_.notify_all();
  }
  void begin(HttpResponse) override {}
  void write(std::string) override {}
  void end() override {}
  void on_disconnect(std::function<void()>) override {}
  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(sent_.wait_for(lock, 60s, [&] { return response_.has_value(); }));
    return response_.value_or(HttpResponse{0, ""});
  }

 private:
  std::mutex mutex_;
  std::condition_variable sent_;
  std::optional<HttpResponse> response_;
};

// A CPU whose memory can be made to fail.
class FailingDevice : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  Memory& memory() override {
    if (fails) throw std::bad_alloc();
    return CpuDevice::memory();
  }
  std::atomic<bool> fails{false};
};

// A server without a socket.
class TestServer {
 public:
  explicit TestServer(bool poisoned = false, double hung_after = 60)
      : model_(poisoned), registry_({{"tiny", model_.path(), {}}}, opener(), 1) {
    const Status opened = registry_.open_first();
    EXPECT_TRUE(opened.ok()) << opened.error().text();
    ServeOptions o;
    o.hung_after = hung_after;
    service_.emplace(registry_, std::move(o));
  }

  FailingDevice& device() { return device_; }
  EngineLoop& loop() { return registry_.list().front().active->loop; }
  std::shared_ptr<StoredReply> send_request(const std::string& method, const std::string& path,
                                            std::string body = "") {
    HttpRequest request{method, path, "", {{"host", "localhost"}}, std::move(body), "127.0.0.1"};
    EXPECT_FALSE(service_->refuse(request));
    auto reply = std::make_shared<StoredReply>();
    service_->handle(std::move(request), reply);
    return reply;
  }
  std::shared_ptr<StoredReply> complete(const Json& prompt, const Json& more = Json::object()) {
    Json body = {{"prompt", prompt}, {"max_tokens", 12}, {"temperature", 0}};
    body.update(more);
    return send_request("POST", "/v1/completions", body.dump());
  }
  int health() { return send_request("GET", "/health")->wait().status; }

 private:
  ModelRegistry::Opener opener() {
    return [this](const ModelEntry& entry, int64_t) -> Result<std::shared_ptr<ActiveModel>> {
      MAKAR_TRY(LanguageModel language, LanguageModel::open(entry.path, device_));
      MAKAR_TRY(ServedModel served, ServedModel::of(std::move(language), {}, entry.name, entry.path));
      EngineOptions options;
      options.max_pages = 64;
      return std::make_shared<ActiveModel>(std::move(served), EmbedOptions{}, device_, options, turns_);
    };
  }
  TinyModel model_;
  FailingDevice device_{2};
  Turns turns_;
  ModelRegistry registry_;
  std::optional<Service> service_;
};

// Throws at the configured place; kFinishAndFail: in finish(), and in the fail() that follows.
class ThrowingTask : public EngineTask {
 public:
  enum class Where { kBegin, kDone, kFinishAndFail, kRelease };
  ThrowingTask(Where where, std::shared_ptr<HttpReply> reply) : where_(where), reply_(std::move(reply)) {}
  Status begin(Engine&) override { return fail_at(Where::kBegin), Done{}; }
  bool done() override { return fail_at(Where::kDone), true; }
  void finish() override { fail_at(Where::kFinishAndFail); }
  void fail(const Error&) override {
    fail_at(Where::kFinishAndFail);
    reply_->send({500, "failed"});
  }
  void release() override { fail_at(Where::kRelease); }

 private:
  void fail_at(Where where) const {
    if (where == where_) throw std::runtime_error("a task that throws");
  }
  const Where where_;
  std::shared_ptr<HttpReply> reply_;
};

// Computes one token and calls a function in the middle of the step.
class CallbackJob : public Job {
 public:
  explicit CallbackJob(std::function<void()> callback) : callback_(std::move(callback)) {
    branches.push_back({{5}, {}, 0, 0, {}});
  }
  void on_logits(size_t, int64_t, std::span<const float>) override { callback_(); }
  void advance(KvCache& cache) override {
    drop(cache, branches[0]);
    branches.clear();
  }

 private:
  std::function<void()> callback_;
};

class CallbackTask : public EngineTask {
 public:
  explicit CallbackTask(std::function<void()> callback)
      : job_(std::make_shared<CallbackJob>(std::move(callback))) {}
  Status begin(Engine& engine) override { return engine_ = &engine, engine.submit(job_), Done{}; }
  bool done() override { return job_->done(); }
  void finish() override {}
  void fail(const Error&) override { failed = true; }
  void release() override { engine_->cancel(*job_); }
  std::atomic<bool> failed{false};

 private:
  std::shared_ptr<CallbackJob> job_;
  Engine* engine_ = nullptr;
};

std::string text_of(const HttpResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  const auto body = parse_json(response.body, "answer");
  return body.ok() && body->contains("choices") ? (*body)["choices"][0].dump() : "";
}

TEST(Faults, HangingStepMakesHealthFail) {
  TestServer served(false, 0.1);
  EXPECT_EQ(served.health(), 200);
  std::atomic<bool> resume{false};
  served.loop().submit(std::make_shared<CallbackTask>([&] {
    while (!resume) std::this_thread::sleep_for(1ms);
  }));
  const auto waiting = served.complete("abc");
  const auto until = [&](int status) {
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (served.health() != status && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(5ms);
    return served.health();
  };
  EXPECT_EQ(until(503), 503);
  resume = true;
  EXPECT_EQ(until(200), 200);
  EXPECT_NE(text_of(waiting->wait()), "");  // a request that arrived meanwhile is answered
}

TEST(Faults, ThrowingStepFailsOnlyItsRequests) {
  TestServer served;
  const std::string alone = text_of(served.complete("abc")->wait());
  for (int i = 0; i < 5; ++i) {
    // Both arrive during a step, so the next step has both.
    std::atomic<bool> in_step{false}, resume{false};
    served.loop().submit(std::make_shared<CallbackTask>([&] {
      in_step = true;
      while (!resume) std::this_thread::sleep_for(1ms);
    }));
    while (!in_step) std::this_thread::sleep_for(1ms);
    const auto bad_reply = served.complete("abc");
    while (served.loop().waiting() == 0) std::this_thread::sleep_for(1ms);
    const auto callback_task =
        std::make_shared<CallbackTask>([] { throw std::runtime_error("a broken contract"); });
    served.loop().submit(callback_task);
    resume = true;
    const HttpResponse response = bad_reply->wait();
    EXPECT_EQ(response.status, 500);
    EXPECT_NE(response.body.find("internal_error"), std::string::npos) << response.body;
    EXPECT_EQ(response.body.find("a broken contract"), std::string::npos)
        << response.body;  // only in the log
    EXPECT_EQ(text_of(served.complete("abc")->wait()), alone);
    EXPECT_TRUE(callback_task->failed);
    EXPECT_EQ(served.health(), 200);
  }
}

TEST(Faults, AnEngineThatCannotBeCreatedIsRetried) {
  TestServer served;
  const std::string alone = text_of(served.complete("abc")->wait());
  for (int i = 0; i < 3; ++i) {
    const auto callback_task = std::make_shared<CallbackTask>([&] {
      served.device().fails = true;  // so that there is no new engine after this step
      throw std::runtime_error("a broken contract");
    });
    served.loop().submit(callback_task);
    while (!callback_task->failed) std::this_thread::sleep_for(1ms);
    for (int j = 0; j < 2; ++j) {
      const HttpResponse response = served.complete("abc")->wait();
      EXPECT_EQ(response.status, 503) << response.body;
      EXPECT_NE(response.body.find("try again later"), std::string::npos) << response.body;
      EXPECT_EQ(served.health(), 200);
    }
    served.device().fails = false;
    EXPECT_EQ(text_of(served.complete("abc")->wait()), alone);
  }
}

TEST(Faults, ThrowingTaskFailsAlone) {
  using Where = ThrowingTask::Where;
  TestServer served;
  const std::string alone = text_of(served.complete("abc")->wait());
  for (const Where where : {Where::kBegin, Where::kDone, Where::kFinishAndFail, Where::kRelease}) {
    const auto concurrent = served.complete("abc");
    const auto reply = std::make_shared<StoredReply>();
    served.loop().submit(std::make_shared<ThrowingTask>(where, reply));
    EXPECT_EQ(text_of(concurrent->wait()), alone);
    if (where == Where::kBegin || where == Where::kDone) {
      EXPECT_EQ(reply->wait().status, 500);
    }
    EXPECT_EQ(text_of(served.complete("abc")->wait()), alone);
    EXPECT_EQ(served.health(), 200);
  }
}

TEST(Faults, NanLogitsFailOnlyTheirRequest) {
  TestServer clean, served(true);
  const Json good = "abcdefghijklmnopqrstuvwxyz", bad = Json::array({41, kPoison, 43});
  // The poisoned token is never generated: it is in the prompt or absent. Log-probabilities expose every bit.
  std::vector<Json> variants = {{{"temperature", 0}},
                                {{"temperature", 1}, {"seed", 3}},
                                {{"use_beam_search", true}, {"best_of", 3}},
                                {{"echo", true}},
                                {{"n", 3}, {"temperature", 1}, {"seed", 5}}};
  for (Json& variant : variants)
    if (!variant.contains("use_beam_search"))
      variant["logprobs"] = 2, variant["logit_bias"] = {{std::to_string(kPoison), -1000}, {"2", -1000}};
  std::vector<std::string> alone;
  for (const Json& variant : variants) alone.push_back(text_of(clean.complete(good, variant)->wait()));
  for (int round = 0; round < 4; ++round) {  // pages that held NaN are reused
    std::vector<std::shared_ptr<StoredReply>> bad_replies, good_replies;
    for (const Json& variant : variants) {
      bad_replies.push_back(served.complete(bad, variant));
      good_replies.push_back(served.complete(good, variant));
      bad_replies.push_back(served.complete(bad, variant));
    }
    for (size_t i = 0; i < variants.size(); ++i)
      EXPECT_EQ(text_of(good_replies[i]->wait()), alone[i]) << variants[i];
    for (const auto& reply : bad_replies) {
      const HttpResponse response = reply->wait();
      EXPECT_EQ(response.status, 500) << response.body;
      EXPECT_NE(response.body.find("logits"), std::string::npos) << response.body;
    }
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (served.loop().state().tasks > 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(served.loop().state().tasks, 0);
    EXPECT_EQ(served.health(), 200);
  }
}

}  // namespace
}  // namespace makar
