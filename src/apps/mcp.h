// The Model Context Protocol over standard input and output: JSON-RPC 2.0, one message per line. The client
// uses the tools of another program; the server offers the tools of makar to other programs.
#pragma once
#include <memory>
#include <optional>

#include "apps/tool.h"

namespace makar {

constexpr const char* kMcpVersion = "2025-06-18";
constexpr size_t kMaxMcpLineBytes = size_t{4} << 20;
constexpr size_t kMaxMcpTools = 256;

// A received message. Reading fails if it is not JSON-RPC 2.0.
struct McpMessage {
  Json id;             // null: a notification
  std::string method;  // empty: a response
  Json parameters, result, error;
};
Result<McpMessage> read_mcp_message(const std::string& line);

// The tools of an answer to tools/list. Names and descriptions are untrusted: bounded, and prefixed.
Result<std::vector<Tool>> read_mcp_tools(const Json& result, const std::string& prefix);
// The text of an answer to tools/call.
Result<std::string> read_mcp_content(const Json& result);

// A program started with `command` (by sh -c), and its tools. The process ends with the client. Its tools
// have effects, and their results are untrusted.
class McpClient {
 public:
  static Result<std::shared_ptr<McpClient>> start(const std::string& command, double seconds = 30);
  ~McpClient();
  McpClient(const McpClient&) = delete;

  // Named PREFIX_NAME; they keep the client alive.
  static Result<std::vector<Tool>> tools(const std::shared_ptr<McpClient>& client, const std::string& prefix);

 private:
  McpClient() = default;
  Result<Json> request(const std::string& method, Json parameters, double seconds);
  Status send(const Json& message, double seconds);
  Result<std::string> read_line(double seconds);

  std::string command_, received_;  // received_: bytes after the last line that was returned
  int process_ = -1, input_ = -1, output_ = -1;
  int64_t next_ = 1;
};

// The response to a message of a client: initialize, ping, tools/list, tools/call; none for a notification.
std::optional<std::string> mcp_answer(const std::string& line, const std::vector<Tool>& tools,
                                      double seconds);

}  // namespace makar
