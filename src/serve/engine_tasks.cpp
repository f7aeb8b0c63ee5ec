#include "serve/engine_tasks.h"

namespace makar {

Status NonGeneratingTask::begin(Engine& engine) {
  engine_ = &engine;
  submit_more();
  return Done{};
}

void NonGeneratingTask::submit_more() {
  int64_t tokens = 0;
  while (has_more_ && tokens < kMaxTokensInFlight) {
    auto next = job(next_);
    if (!next) {
      has_more_ = false;
      break;
    }
    next->adapter = adapter, next->priority = priority, next->salt = salt;
    tokens += next->branches.empty() ? 0 : next->branches[0].length();
    engine_->submit(next);
    running_.emplace_back(next_++, std::move(next));
  }
}

bool NonGeneratingTask::done() {
  for (const auto& [index, running] : running_)
    if (!running->done()) return false;
  for (const auto& [index, running] : running_) {
    if (running->error && !error_) error_ = running->error;
    if (!error_) take(index, *running);
  }
  running_.clear();
  if (error_) return true;
  submit_more();
  return running_.empty();
}

// Serializing thousands of vectors takes as long as a step, so it runs off the engine thread.
void NonGeneratingTask::finish() {
  const auto end = [this, self = shared_from_this()] { ended(error_ ? Status(*error_) : Status(Done{})); };
  if (run_on_worker)
    run_on_worker(end);
  else
    end();
}

void NonGeneratingTask::release() {
  for (const auto& [index, running] : running_) engine_->cancel(*running);
  running_.clear();
}

std::shared_ptr<Job> EmbedTask::job(size_t index) {
  if (index >= texts_.size()) return nullptr;
  return std::make_shared<EncodeJob>(texts_[index]);
}

void EmbedTask::take(size_t index, Job& job) {
  vectors_.push_back(text_vector(engine().model(), engine().device(), static_cast<EncodeJob&>(job).states(),
                                 texts_[index], options_));
}

void EmbedTask::ended(const Status& status) {
  if (status.ok())
    on_done_(vectors_);
  else
    on_done_(status.error());
}

std::shared_ptr<Job> LabelTask::job(size_t index) {
  if (index >= texts_.size()) return nullptr;
  return std::make_shared<EncodeJob>(texts_[index].ids, texts_[index].types);
}

void LabelTask::take(size_t index, Job& job) {
  logits_.push_back(class_logits(engine().model(), engine().device(), static_cast<EncodeJob&>(job).states(),
                                 texts_[index]));
}

void LabelTask::ended(const Status& status) {
  if (status.ok())
    on_done_(logits_);
  else
    on_done_(status.error());
}

std::shared_ptr<Job> ScoreTask::job(size_t index) {
  return index == 0 ? std::make_shared<ScoreJob>(tokens_, from_, top_) : nullptr;
}

void ScoreTask::take(size_t, Job& job) { scores_ = static_cast<ScoreJob&>(job).scores(); }

void ScoreTask::ended(const Status& status) {
  if (status.ok())
    on_done_(scores_);
  else
    on_done_(status.error());
}

}  // namespace makar
