#include "serve/files/batch_runner.h"

#include <unistd.h>

#include <ctime>

#include "serve/api/api_error.h"
#include "serve/api/fields.h"
#include "serve/files/line_file.h"
#include "serve/files/line_reply.h"

namespace makar {
namespace {

constexpr std::chrono::seconds kRetryPause{1};  // before a refused line is sent again
constexpr std::chrono::seconds kOwnerTurn{5};   // time slice of an owner while others wait

int64_t now() { return std::time(nullptr); }

}  // namespace

struct BatchRunner::Work {
  std::string id;
  BatchRecord record;
  BatchInput input;
  std::deque<size_t> todo;  // lines to send
  std::map<size_t, std::weak_ptr<LineReply>> in_flight;
  std::optional<LineFile> output, errors;
  int64_t completed = 0, failed = 0, expires = 0;
  // After a refused line, sending pauses until `not_before`.
  std::chrono::steady_clock::time_point not_before, turn_ends = std::chrono::steady_clock::now() + kOwnerTurn;
};

BatchRunner::BatchRunner(FileStore& files, BatchRecords& records, Send send, int64_t max_in_flight)
    : files_(files),
      records_(records),
      send_(std::move(send)),
      max_in_flight_(static_cast<size_t>(max_in_flight)),
      results_(std::make_shared<LineResults>()) {
  thread_ = std::thread([this] { run(); });
}

Json BatchRunner::counts(const Work& work) {
  return {{"total", work.input.lines.size()}, {"completed", work.completed}, {"failed", work.failed}};
}

void BatchRunner::wake() { results_->wake(); }

void BatchRunner::stop() {
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void BatchRunner::run() {
  while (!stopping_) {
    if (const auto record = records_.next()) {
      work(*record);
      continue;
    }
    std::unique_lock lock(results_->mutex);
    results_->arrived.wait(lock, [this] { return stopping_ || results_->woken; });
    results_->woken = false;
  }
}

// Runs one batch to its end, or until its owner's turn is over and others wait.
void BatchRunner::work(const BatchRecord& record) {
  ++round_;  // late answers to lines of other batches are ignored
  Work work;
  work.id = record.batch["id"], work.record = record;
  const auto run_lines = [&]() -> Status {
    MAKAR_RETURN_IF_ERROR(begin(work));
    for (;;) {
      MAKAR_TRY(const Json batch, records_.find(work.record.owner, work.id));
      if (stopping_ || is_over(batch)) return cancel_lines(work), Done{};
      if (batch["status"] == "cancelling") return cancel_lines(work), finish(work, "cancelled");
      if (now() >= work.expires) return cancel_lines(work), finish(work, "expired");
      const bool turn_over =
          std::chrono::steady_clock::now() >= work.turn_ends && records_.others_unfinished(work.record.owner);
      if (turn_over && work.in_flight.empty() && !work.todo.empty())
        return Done{};  // resumes in the owner's next turn
      if (!turn_over) send_lines(work);
      MAKAR_RETURN_IF_ERROR(take_answers(work));
      if (work.todo.empty() && work.in_flight.empty()) return finish(work, "completed");
    }
  };
  Status status = Done{};
  try {
    status = run_lines();
  } catch (const std::exception& e) {
    status = error_of(Error::Kind::kIo, "batch", "internal error: {}", e.what());
  }
  if (status.ok() || stopping_) return;
  cancel_lines(work);
  const Json error = {{"code", "server_error"},
                      {"message", ApiError::of(status.error()).message},
                      {"param", nullptr},
                      {"line", nullptr}};
  const Json fields = {{"status", "failed"},
                       {"failed_at", now()},
                       {"errors", {{"object", "list"}, {"data", Json::array({error})}}}};
  if (const Status saved = records_.change(work.id, fields); !saved.ok())
    records_.change_in_memory(
        work.id, fields);  // in memory only, as the disk cannot be written: the batch is not retried
}

// Reads the lines, and the answers that an earlier process has written.
Status BatchRunner::begin(Work& work) {
  const Json& batch = work.record.batch;
  MAKAR_TRY(const std::string path,
            files_.path(work.record.owner, batch["input_file_id"].get<std::string>()));
  MAKAR_TRY(work.input, read_batch(path, batch["endpoint"].get<std::string>()));
  work.expires = batch["expires_at"];
  if (!work.input.errors.empty())
    return records_.change(work.id, {{"status", "failed"},
                                     {"failed_at", now()},
                                     {"errors", {{"object", "list"}, {"data", work.input.errors}}}});
  std::set<std::string> completed, failed;
  const auto open = [&](const std::string& id, std::set<std::string>& ids,
                        std::optional<LineFile>& file) -> Status {
    if (files_.find(work.record.owner, id).ok()) {  // the process ended after completing it
      MAKAR_TRY(const std::string finished_path, files_.path(work.record.owner, id));
      return recover_answers(finished_path, ids);
    }
    MAKAR_RETURN_IF_ERROR(recover_answers(files_.part_path(id), ids));
    MAKAR_TRY(file, LineFile::open(files_.part_path(id)));
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(open(work.record.output_id, completed, work.output));
  MAKAR_RETURN_IF_ERROR(open(work.record.error_id, failed, work.errors));
  work.completed = static_cast<int64_t>(completed.size()), work.failed = static_cast<int64_t>(failed.size());
  for (size_t i = 0; i < work.input.lines.size(); ++i) {
    const std::string& id = work.input.lines[i].custom_id;
    if (!completed.contains(id) && !failed.contains(id)) work.todo.push_back(i);
  }
  Json fields = {{"request_counts", counts(work)}};
  if (batch["status"] == "validating") fields["status"] = "in_progress", fields["in_progress_at"] = now();
  return records_.change(work.id, fields);
}

void BatchRunner::send_lines(Work& work) {
  if (std::chrono::steady_clock::now() < work.not_before) return;
  while (!work.todo.empty() && work.in_flight.size() < max_in_flight_) {
    const size_t line = work.todo.front();
    work.todo.pop_front();
    auto reply = std::make_shared<LineReply>(results_, round_, line);
    work.in_flight[line] = reply;
    const auto body = work.input.body(work.input.lines[line]);
    Error error = body.ok() ? Error{} : body.error();
    if (body.ok() && body->value("stream", Json()) == Json(true))
      error = error_at("stream", "must not be set in a batch line");
    if (!error.message.empty())
      reply->send(error_response(Dialect::kOpenAi, ApiError::of(error)));
    else
      send_(work.record, *body, std::move(reply));
  }
}

// Waits for answers and writes them to the files.
Status BatchRunner::take_answers(Work& work) {
  std::deque<LineAnswer> answers;
  {
    std::unique_lock lock(results_->mutex);
    results_->arrived.wait_for(lock, kRetryPause,
                               [&] { return stopping_ || results_->woken || !results_->answers.empty(); });
    results_->woken = false;
    answers.swap(results_->answers);
  }
  bool to_output = false, to_errors = false;
  for (const LineAnswer& answer : answers) {
    if (answer.round != round_ || work.in_flight.erase(answer.line) == 0) continue;
    const bool retry = answer.status == 429 || answer.status == 503 || (answer.status == 0 && stopping_);
    if (retry) {
      work.todo.push_back(answer.line);
      work.not_before = std::chrono::steady_clock::now() + kRetryPause;
      continue;
    }
    const bool success = answer.status >= 200 && answer.status < 300;
    const ApiError dropped{500, "the request was dropped", "server_error"};
    const std::string text =
        batch_answer(work.input.lines[answer.line].custom_id, answer.status == 0 ? 500 : answer.status,
                     answer.status == 0 ? error_body(Dialect::kOpenAi, dropped) : answer.body);
    MAKAR_RETURN_IF_ERROR((success ? work.output : work.errors)->append(text));
    ++(success ? work.completed : work.failed);
    (success ? to_output : to_errors) = true;
  }
  if (answers.empty()) return Done{};
  // Sync before counting: a counted answer survives a crash of the machine.
  if (to_output) MAKAR_RETURN_IF_ERROR(work.output->sync());
  if (to_errors) MAKAR_RETURN_IF_ERROR(work.errors->sync());
  records_.change_in_memory(work.id, {{"request_counts", counts(work)}});
  return Done{};
}

void BatchRunner::cancel_lines(Work& work) {
  for (const auto& [line, weak_reply] : work.in_flight) {
    if (const auto reply = weak_reply.lock()) reply->disconnect();
    work.todo.push_back(line);
  }
  work.in_flight.clear();
}

// Moves the answers into the file store. If the batch expired, unanswered lines get an error.
Status BatchRunner::finish(Work& work, const char* status) {
  const bool expired = status == std::string_view("expired");
  if (expired) {
    const ApiError expired_error{408, "the batch expired before this request started", "timeout_error",
                                 std::nullopt, "batch_expired"};
    for (const size_t line : work.todo) {
      MAKAR_RETURN_IF_ERROR(
          work.errors->append(batch_answer(work.input.lines[line].custom_id, expired_error.status,
                                           error_body(Dialect::kOpenAi, expired_error))));
      ++work.failed;
    }
  }
  MAKAR_RETURN_IF_ERROR(records_.change(work.id, {{"finalizing_at", now()}}));
  const auto adopt = [&](const std::string& id, std::optional<LineFile>& file, int64_t lines,
                         const char* what) -> Result<Json> {
    if (file) {
      MAKAR_RETURN_IF_ERROR(file->sync());
      file.reset();
    }
    if (lines == 0) return ::unlink(files_.part_path(id).c_str()), Json();
    MAKAR_RETURN_IF_ERROR(
        files_.adopt(work.record.owner, id, work.id + "_" + what + ".jsonl", "batch_output"));
    return Json(id);
  };
  MAKAR_TRY(const Json output, adopt(work.record.output_id, work.output, work.completed, "output"));
  MAKAR_TRY(const Json errors, adopt(work.record.error_id, work.errors, work.failed, "error"));
  return records_.change(work.id, {{"status", status},
                                   {std::string(status) + "_at", now()},
                                   {"output_file_id", output},
                                   {"error_file_id", errors},
                                   {"request_counts", counts(work)}});
}

}  // namespace makar
