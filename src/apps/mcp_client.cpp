#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "apps/mcp.h"
#include "base/file.h"
#include "base/quote.h"
#include "base/version.h"

namespace makar {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMaxSkipped = 1000;  // messages between a request and its answer
constexpr int kMaxPages = 20;      // of tools/list

// Waits until the descriptor is ready. False: the time is over.
bool wait_for(int file, short what, Clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd one = {file, what, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // reading or writing reports the error
  }
}

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Result<std::shared_ptr<McpClient>> McpClient::start(const std::string& command, double seconds) {
  std::array<int, 2> to{}, from{};
  if (::pipe2(to.data(), O_CLOEXEC) != 0) return io_error(command, "make a pipe");
  if (::pipe2(from.data(), O_CLOEXEC) != 0) {
    ::close(to[0]), ::close(to[1]);
    return io_error(command, "make a pipe");
  }
  const std::array<const char*, 4> words = {"sh", "-c", command.c_str(), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {  // only calls that are safe after fork
    ::setpgid(0, 0);
    ::dup2(to[0], 0), ::dup2(from[1], 1);
    ::execv("/bin/sh", const_cast<char* const*>(words.data()));
    ::_exit(127);
  }
  ::close(to[0]), ::close(from[1]);
  if (child < 0) {
    ::close(to[1]), ::close(from[0]);
    return io_error(command, "start a process");
  }
  std::shared_ptr<McpClient> out(new McpClient);
  out->command_ = command, out->process_ = child, out->input_ = to[1], out->output_ = from[0];
  ::fcntl(out->input_, F_SETFL, O_NONBLOCK), ::fcntl(out->output_, F_SETFL, O_NONBLOCK);
  MAKAR_TRY(const Json begun, out->request("initialize",
                                           {{"protocolVersion", kMcpVersion},
                                            {"capabilities", Json::object()},
                                            {"clientInfo", {{"name", "makar"}, {"version", kMakarVersion}}}},
                                           seconds));
  MAKAR_CHECK_OK(out->send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}}, seconds));
  return out;
}

McpClient::~McpClient() {
  ::close(input_), ::close(output_);
  // Closing its input ends a server; one that keeps running is killed.
  for (int i = 0; i < 20; ++i) {
    int status = 0;
    if (::waitpid(process_, &status, WNOHANG) != 0) {
      ::kill(-process_, SIGKILL);  // with its children
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(-process_, SIGKILL), ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

Status McpClient::send(const Json& message, double seconds) {
  const std::string line = dump(message) + "\n";
  const auto end = after(seconds);
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(input_, line.data() + at, line.size() - at);
    if (n > 0) {
      at += static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_for(input_, POLLOUT, end))
        return error_of(Error::Kind::kIo, command_, "does not read its input");
    } else {
      return io_error(command_, "write to the program, which may have ended");
    }
  }
  return Done{};
}

Result<std::string> McpClient::read_line(double seconds) {
  const auto end = after(seconds);
  for (size_t searched = 0;;) {
    if (const size_t line = unread_.find('\n', searched); line != std::string::npos) {
      std::string out = unread_.substr(0, line);
      unread_.erase(0, line + 1);
      return out;
    }
    searched = unread_.size();
    if (unread_.size() > kLongestMcpLine)
      return error_of(Error::Kind::kLimit, command_, "a line has more than {} bytes", kLongestMcpLine);
    if (!wait_for(output_, POLLIN, end))
      return error_of(Error::Kind::kIo, command_, "did not answer in {:.1f} seconds", seconds);
    std::array<char, 1 << 14> buffer;
    const ssize_t n = ::read(output_, buffer.data(), buffer.size());
    if (n > 0)
      unread_.append(buffer.data(), static_cast<size_t>(n));
    else if (n == 0)
      return error_of(Error::Kind::kIo, command_, "the program ended");
    else if (errno != EAGAIN && errno != EINTR)
      return io_error(command_, "read from the program");
  }
}

Result<Json> McpClient::request(const std::string& method, Json parameters, double seconds) {
  const auto end = after(seconds);
  const int64_t id = next_++;
  MAKAR_CHECK_OK(
      send({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(parameters)}}, seconds));
  for (int i = 0; i < kMaxSkipped; ++i) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    MAKAR_TRY(const std::string line, read_line(std::max(left, 0.0)));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto message = read_mcp_message(line);
    if (!message.ok()) return message.error().in(command_);
    if (!message->method.empty()) {
      if (message->id.is_null()) continue;
      Json reply = {{"jsonrpc", "2.0"}, {"id", message->id}};
      if (message->method == "ping")
        reply["result"] = Json::object();
      else
        reply["error"] = {{"code", -32601}, {"message", "not supported"}};
      MAKAR_CHECK_OK(send(reply, std::max(left, 0.0)));
      continue;
    }
    if (message->id != Json(id)) continue;
    if (!message->error.is_null()) {
      const Json text = message->error.is_object() ? message->error.value("message", Json()) : Json();
      return error_at(command_, "{}: {}", method,
                      text.is_string() ? quote(text.get<std::string>(), 500) : "failed");
    }
    return message->result;
  }
  return error_of(Error::Kind::kLimit, command_, "sent {} messages without an answer", kMaxSkipped);
}

Result<std::vector<Tool>> McpClient::tools(const std::shared_ptr<McpClient>& client,
                                           const std::string& prefix) {
  constexpr double kListSeconds = 30;
  Json all = {{"tools", Json::array()}}, cursor;
  for (int page = 0; page < kMaxPages; ++page) {
    MAKAR_TRY(const Json result,
              client->request("tools/list", cursor.is_string() ? Json{{"cursor", cursor}} : Json::object(),
                              kListSeconds));
    MAKAR_TRY(const auto some, read_mcp_tools(result, prefix));
    for (const Json& one : result["tools"]) all["tools"].push_back(one);
    cursor = result.value("nextCursor", Json());
    if (!cursor.is_string()) break;
  }
  auto out = read_mcp_tools(all, prefix);
  if (!out.ok()) return out.error().in(client->command_);
  for (Tool& tool : *out)
    tool.run = [client, own = prefix.empty() ? tool.name : tool.name.substr(prefix.size() + 1)](
                   const Json& input, double seconds) -> Result<std::string> {
      MAKAR_TRY(const Json result,
                client->request("tools/call", {{"name", own}, {"arguments", input}}, seconds));
      return read_mcp_content(result);
    };
  return out;
}

}  // namespace makar
