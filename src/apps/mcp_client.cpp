// The client of the Model Context Protocol: a child process, and messages through its pipes.
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

// Waits until the descriptor is ready. False: timeout.
bool wait_for(int file, short events, Clock::time_point deadline) {
  for (;;) {
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (milliseconds <= 0) return false;
    pollfd descriptor = {file, events, 0};
    const int ready = ::poll(&descriptor, 1, static_cast<int>(std::min<int64_t>(milliseconds, 1 << 30)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // reading or writing reports the error
  }
}

Clock::time_point deadline_after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Result<std::shared_ptr<McpClient>> McpClient::start(const std::string& command, double seconds) {
  std::array<int, 2> to_child{}, from_child{};
  if (::pipe2(to_child.data(), O_CLOEXEC) != 0) return io_error(command, "make a pipe");
  if (::pipe2(from_child.data(), O_CLOEXEC) != 0) {
    ::close(to_child[0]), ::close(to_child[1]);
    return io_error(command, "make a pipe");
  }
  const std::array<const char*, 4> argv = {"sh", "-c", command.c_str(), nullptr};
  const pid_t child = ::fork();
  if (child == 0) {  // only async-signal-safe calls
    ::setpgid(0, 0);
    ::dup2(to_child[0], 0), ::dup2(from_child[1], 1);
    ::execv("/bin/sh", const_cast<char* const*>(argv.data()));
    ::_exit(127);
  }
  ::close(to_child[0]), ::close(from_child[1]);
  if (child < 0) {
    ::close(to_child[1]), ::close(from_child[0]);
    return io_error(command, "start a process");
  }
  std::shared_ptr<McpClient> out(new McpClient);
  out->command_ = command, out->process_ = child, out->input_ = to_child[1], out->output_ = from_child[0];
  ::fcntl(out->input_, F_SETFL, O_NONBLOCK), ::fcntl(out->output_, F_SETFL, O_NONBLOCK);
  MAKAR_TRY(const Json initialized,
            out->request("initialize",
                         {{"protocolVersion", kMcpVersion},
                          {"capabilities", Json::object()},
                          {"clientInfo", {{"name", "makar"}, {"version", kMakarVersion}}}},
                         seconds));
  MAKAR_RETURN_IF_ERROR(out->send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}}, seconds));
  return out;
}

McpClient::~McpClient() {
  ::close(input_), ::close(output_);
  // Closing its input ends a server; one that still runs after 0.2 seconds is killed.
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
  const auto deadline = deadline_after(seconds);
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(input_, line.data() + at, line.size() - at);
    if (n > 0) {
      at += static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_for(input_, POLLOUT, deadline))
        return error_of(Error::Kind::kIo, command_, "did not read its input in {:.1f} seconds", seconds);
    } else {
      return io_error(command_, "write to the program, which may have ended");
    }
  }
  return Done{};
}

Result<std::string> McpClient::read_line(double seconds) {
  const auto deadline = deadline_after(seconds);
  for (size_t searched = 0;;) {
    if (const size_t line = received_.find('\n', searched); line != std::string::npos) {
      std::string out = received_.substr(0, line);
      received_.erase(0, line + 1);
      return out;
    }
    searched = received_.size();
    if (received_.size() > kMaxMcpLineBytes)
      return error_of(Error::Kind::kLimit, command_, "a line has more than {} bytes", kMaxMcpLineBytes);
    if (!wait_for(output_, POLLIN, deadline))
      return error_of(Error::Kind::kIo, command_, "did not answer in {:.1f} seconds", seconds);
    std::array<char, 1 << 14> buffer;
    const ssize_t n = ::read(output_, buffer.data(), buffer.size());
    if (n > 0)
      received_.append(buffer.data(), static_cast<size_t>(n));
    else if (n == 0)
      return error_of(Error::Kind::kIo, command_, "the program ended");
    else if (errno != EAGAIN && errno != EINTR)
      return io_error(command_, "read from the program");
  }
}

Result<Json> McpClient::request(const std::string& method, Json parameters, double seconds) {
  const auto deadline = deadline_after(seconds);
  const int64_t id = next_++;
  MAKAR_RETURN_IF_ERROR(
      send({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(parameters)}}, seconds));
  for (int i = 0; i < kMaxSkipped; ++i) {
    const double seconds_left = std::chrono::duration<double>(deadline - Clock::now()).count();
    MAKAR_TRY(const std::string line, read_line(std::max(seconds_left, 0.0)));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto message = read_mcp_message(line);
    if (!message.ok()) return message.error().in(command_);
    if (!message->method.empty()) {
      if (message->id.is_null()) continue;
      Json reply = {{"jsonrpc", "2.0"}, {"id", message->id}};
      if (message->method == "ping")
        reply["result"] = Json::object();
      else
        reply["error"] = {{"code", -32601}, {"message", "not supported"}};  // method not found
      MAKAR_RETURN_IF_ERROR(send(reply, std::max(seconds_left, 0.0)));
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
    MAKAR_TRY(const auto valid_page, read_mcp_tools(result, prefix));
    for (const Json& one : result["tools"]) all["tools"].push_back(one);
    cursor = result.value("nextCursor", Json());
    if (!cursor.is_string()) break;
  }
  auto out = read_mcp_tools(all, prefix);
  if (!out.ok()) return out.error().in(client->command_);
  for (Tool& tool : *out)
    tool.run = [client, remote_name = prefix.empty() ? tool.name : tool.name.substr(prefix.size() + 1)](
                   const Json& input, double seconds) -> Result<std::string> {
      MAKAR_TRY(const Json result,
                client->request("tools/call", {{"name", remote_name}, {"arguments", input}}, seconds));
      return read_mcp_content(result);
    };
  return out;
}

}  // namespace makar
