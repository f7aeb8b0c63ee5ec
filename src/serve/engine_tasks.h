// Engine tasks that generate no tokens: embeddings, classes, log-probabilities of completions.
#pragma once
#include <functional>

#include "infer/encode_job.h"
#include "infer/score_job.h"
#include "llm/classify.h"
#include "llm/embed.h"
#include "serve/engine_loop.h"

namespace makar {

// Submits jobs in groups with a bounded number of tokens: hidden states are many times larger than the text.
class NonGeneratingTask : public EngineTask {
 public:
  Status begin(Engine& engine) override;
  bool done() override;
  void finish() override;
  void fail(const Error& why) override { ended(why); }
  void release() override;

 protected:
  // Job `index`, or null after the last one. take() receives each finished job.
  virtual std::shared_ptr<Job> job(size_t index) = 0;
  virtual void take(size_t index, Job& job) = 0;
  // Called once, on success or failure.
  virtual void ended(const Status& status) = 0;
  const Engine& engine() const { return *engine_; }

 private:
  void submit_more();
  static constexpr int64_t kMaxTokensInFlight = 8192;
  Engine* engine_ = nullptr;
  std::vector<std::pair<size_t, std::shared_ptr<Job>>> running_;
  size_t next_ = 0;
  bool has_more_ = true;
  std::optional<Error> error_;
};

// One vector per text.
class EmbedTask : public NonGeneratingTask {
 public:
  using OnDone = std::function<void(const Result<std::vector<std::vector<float>>>&)>;
  EmbedTask(std::vector<std::vector<int64_t>> texts, EmbedOptions options, OnDone on_done)
      : texts_(std::move(texts)), options_(options), on_done_(std::move(on_done)) {}

 private:
  std::shared_ptr<Job> job(size_t index) override;
  void take(size_t index, Job& job) override;
  void ended(const Status& status) override;
  std::vector<std::vector<int64_t>> texts_;
  EmbedOptions options_;
  OnDone on_done_;
  std::vector<std::vector<float>> vectors_;
};

// Classifier logits, one row per text.
class LabelTask : public NonGeneratingTask {
 public:
  using OnDone = std::function<void(const Result<std::vector<std::vector<float>>>&)>;
  LabelTask(std::vector<TypedTokens> texts, OnDone on_done)
      : texts_(std::move(texts)), on_done_(std::move(on_done)) {}

 private:
  std::shared_ptr<Job> job(size_t index) override;
  void take(size_t index, Job& job) override;
  void ended(const Status& status) override;
  std::vector<TypedTokens> texts_;
  OnDone on_done_;
  std::vector<std::vector<float>> logits_;
};

// Log-probabilities of the tokens of one sequence.
class ScoreTask : public NonGeneratingTask {
 public:
  using OnDone = std::function<void(const Result<std::vector<Logprobs>>&)>;
  ScoreTask(std::vector<int64_t> tokens, int64_t from, int64_t top, OnDone on_done)
      : tokens_(std::move(tokens)), from_(from), top_(top), on_done_(std::move(on_done)) {}

 private:
  std::shared_ptr<Job> job(size_t index) override;
  void take(size_t index, Job& job) override;
  void ended(const Status& status) override;
  std::vector<int64_t> tokens_;
  int64_t from_, top_;  // first scored token; alternatives listed per token
  OnDone on_done_;
  std::vector<Logprobs> scores_;
};

}  // namespace makar
