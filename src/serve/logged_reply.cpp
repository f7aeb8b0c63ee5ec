#include "serve/logged_reply.h"

#include <algorithm>
#include <ctime>
#include <random>

#include "serve/api/fields.h"

namespace makar {
namespace {

constexpr int kClientClosed = 499;  // nginx: client closed the request
constexpr size_t kMaxRequestIdBytes = 64;

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms);
}

}  // namespace

std::string random_id() {
  // From the system's random source: ids of files and responses must not be guessable.
  static thread_local std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

std::string request_id(const HttpRequest& request) {
  const std::string client_id = request.header("x-request-id");
  const bool valid = !client_id.empty() && client_id.size() <= kMaxRequestIdBytes &&
                     std::all_of(client_id.begin(), client_id.end(), [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              c == '-' || c == '_' || c == '.';
                     });
  return valid ? client_id : "req-" + random_id();
}

LoggedReply::LoggedReply(std::shared_ptr<HttpReply> reply, const HttpRequest& request, std::string route,
                         std::string id, ServeMetrics& metrics, const LogSink& log, RequestMemory& memory)
    : reply_(std::move(reply)),
      method_(request.method),
      path_(request.path.substr(0, kMaxLoggedPathBytes)),
      remote_(request.remote),
      route_(std::move(route)),
      id_(std::move(id)),
      bytes_(request.body.size()),
      metrics_(metrics),
      log_(log),
      memory_(std::make_shared<RequestMemory::Share>(memory)) {
  reply_->on_disconnect([disconnected = disconnected_] { *disconnected = true; });
}

LoggedReply::~LoggedReply() {
  try {
    log_request();
  } catch (const std::exception&) {
    // Out of memory for the log line; the request itself is complete.
  }
}

void LoggedReply::log_request() {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  int status = status_;
  if (status == 0 || (*disconnected_ && !complete_)) status = *disconnected_ ? kClientClosed : 500;
  metrics_.request(route_, status, seconds);
  if (limits_) limits_->charge(caller_, prompt_ + generated_);
  const std::optional<Cost> request_cost = cost();
  if (request_cost && prompt_ + generated_ > 0)
    metrics_.charge(caller_.empty() ? remote_ : caller_, *request_cost);
  if (!log_) return;
  Json line = {{"time", timestamp()},
               {"id", id_},
               {"remote", remote_},
               {"caller", caller_},
               {"method", method_},
               {"path", path_},
               {"status", status},
               {"bytes_in", bytes_},
               {"ms", static_cast<int64_t>(seconds * 1e3)},
               {"prompt_tokens", prompt_.load()},
               {"completion_tokens", generated_.load()}};
  if (request_cost) line["cost"] = request_cost->money, line["joules"] = request_cost->joules;
  if (!error_.empty()) line["error"] = error_;
  log_(dump(line));
}

void LoggedReply::set_caller(std::string caller, RateLimit& limits, HttpHeaders headers) {
  caller_ = std::move(caller), limits_ = &limits, headers_ = std::move(headers);
}

void LoggedReply::send(HttpResponse response) {
  status_ = response.status, complete_ = true;
  response.resources = memory_;
  response.headers.emplace_back("x-request-id", id_);
  response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  reply_->send(std::move(response));
}

void LoggedReply::begin(HttpResponse head) {
  status_ = head.status;
  head.resources = memory_;
  head.headers.emplace_back("x-request-id", id_);
  head.headers.insert(head.headers.end(), headers_.begin(), headers_.end());
  head.headers.emplace_back("cache-control", "no-cache");
  reply_->begin(std::move(head));
}

void LoggedReply::end() {
  complete_ = true;
  reply_->end();
}

void LoggedReply::on_disconnect(std::function<void()> callback) {
  reply_->on_disconnect([disconnected = disconnected_, callback = std::move(callback)] {
    *disconnected = true;
    callback();
  });
}

void LoggedReply::count(int64_t prompt, int64_t generated) {
  prompt_ += prompt, generated_ += generated;
  metrics_.tokens(prompt, generated);
}

std::optional<Cost> LoggedReply::cost() const {
  if (!metrics_.prices()) return std::nullopt;
  return metrics_.price(prompt_, generated_);
}

void LoggedReply::first_token() {
  if (!has_first_token_.exchange(true))
    metrics_.first_token(std::chrono::duration<double>(Clock::now() - start_).count());
}

void LoggedReply::failed(const std::string& why) { error_ = why; }

}  // namespace makar
