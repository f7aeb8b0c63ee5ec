#include "apps/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <thread>

#include "base/file.h"

namespace makar {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(100);
constexpr size_t kMaxAnswerBytes = size_t{1} << 20;

}  // namespace

Result<TraceFile> TraceFile::create(const std::string& folder, const std::string& question, AgentMode mode) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &utc);
  const std::string name = fmt::format("{}/{}-{}", folder, text, ::getpid());
  const int fd = ::open((name + ".jsonl").c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return io_error(name + ".jsonl", "create");
  ::close(fd);
  TraceFile out(name + ".jsonl", name);
  out.add({{"question", question}, {"mode", mode == AgentMode::kPlan ? "plan" : "react"}});
  MAKAR_RETURN_IF_ERROR(out.status_);
  return out;
}

void TraceFile::add(const Json& line) {
  if (!status_.ok()) return;
  const std::string text = dump(line) + "\n";
  const int fd = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written) status_ = io_error(path_, "write");
  if (fd >= 0) ::close(fd);
}

void TraceFile::step(const AgentStep& step) { add({{"step", step_json(step)}}); }

void TraceFile::end(const AgentTrace& trace) {
  add({{"end", name(trace.end)},
       {"answer", trace.answer},
       {"reason", trace.reason},
       {"prompt_tokens", trace.prompt_tokens},
       {"tokens", trace.tokens},
       {"seconds", trace.seconds}});
}

std::optional<Json> TraceFile::ask(Json request, double seconds) {
  request["number"] = ++requests_;
  add({{"request", std::move(request)}});
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  const std::string answer = fmt::format("{}.answer-{}.json", name_, requests_);
  while (status_.ok() && std::chrono::steady_clock::now() < deadline) {
    if (is_file(answer)) {
      const auto text = read_file(answer, kMaxAnswerBytes);
      const auto reply = text.ok() ? parse_json(*text, answer) : Result<Json>(text.error());
      if (!reply.ok() || !reply->is_object()) return std::nullopt;
      add({{"reply", {{"number", requests_}, {"answer", *reply}}}});
      return *reply;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return std::nullopt;
}

}  // namespace makar
