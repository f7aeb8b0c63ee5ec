// Messages of client and server, and the server itself.
#include "apps/mcp.h"

#include <set>

#include "base/quote.h"
#include "base/utf8.h"
#include "base/version.h"

namespace makar {
namespace {

constexpr int kParseError = -32700, kInvalidRequest = -32600, kNoMethod = -32601, kBadParameters = -32602;
constexpr size_t kMaxNameBytes = 64, kMaxDescriptionBytes = 4000;

std::string answer(const Json& id, Json result) {
  return dump({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
}
std::string failure(const Json& id, int code, const std::string& message) {
  return dump({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}});
}

Json tool_list(const std::vector<Tool>& tools) {
  Json out = Json::array();
  for (const Tool& tool : tools)
    out.push_back({{"name", tool.name}, {"description", tool.description}, {"inputSchema", tool.parameters}});
  return {{"tools", std::move(out)}};
}

}  // namespace

Result<McpMessage> read_mcp_message(const std::string& line) {
  if (line.size() > kMaxMcpLineBytes)
    return error_of(Error::Kind::kLimit, "message", "has more than {} bytes", kMaxMcpLineBytes);
  MAKAR_TRY(const Json json, parse_json(line, "message"));
  if (!json.is_object() || json.value("jsonrpc", Json()) != "2.0")
    return error_at("message", "expected an object of JSON-RPC 2.0");
  McpMessage out;
  out.id = json.value("id", Json());
  if (!out.id.is_null() && !out.id.is_string() && !out.id.is_number_integer())
    return error_at("id", "expected a text or an integer");
  const Json method = json.value("method", Json());
  if (!method.is_null() && !method.is_string()) return error_at("method", "expected a text");
  if (method.is_string()) out.method = method.get<std::string>();
  out.parameters = json.value("params", Json::object());
  out.result = json.value("result", Json());
  out.error = json.value("error", Json());
  if (out.method.empty() && out.id.is_null() && out.error.is_null())
    return error_at("message", "is neither a request nor an answer");
  return out;
}

Result<std::vector<Tool>> read_mcp_tools(const Json& result, const std::string& prefix) {
  if (!result.is_object() || !result.contains("tools") || !result["tools"].is_array())
    return error_at("tools/list", "expected an object with the list \"tools\"");
  std::vector<Tool> out;
  std::set<std::string> names;
  for (const Json& one : result["tools"]) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string())
      return error_at("tools/list", "a tool has no name");
    const std::string name = one["name"];
    const bool valid =
        !name.empty() && name.size() <= kMaxNameBytes &&
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") ==
            std::string::npos;
    if (!valid) return error_at("tools/list", "{} is not a valid tool name", quote(name));
    if (!names.insert(name).second) return error_at("tools/list", "two tools are named {}", quote(name));
    if (names.size() > kMaxMcpTools)
      return error_of(Error::Kind::kLimit, "tools/list", "more than {} tools", kMaxMcpTools);
    Tool tool;
    tool.name = prefix.empty() ? name : prefix + "_" + name;
    if (const Json description = one.value("description", Json()); description.is_string()) {
      tool.description = description.get<std::string>().substr(0, kMaxDescriptionBytes);
      tool.description.resize(complete_utf8_prefix(tool.description));
    }
    tool.parameters = one.value("inputSchema", Json::object());
    if (!tool.parameters.is_object())
      return error_at("tools/list", "the schema of {} is not an object", quote(name));
    if (!tool.parameters.contains("type")) tool.parameters["type"] = "object";
    tool.untrusted = tool.effect = true;
    out.push_back(std::move(tool));
  }
  return out;
}

Result<std::string> read_mcp_content(const Json& result) {
  if (!result.is_object() || !result.contains("content") || !result["content"].is_array())
    return error_at("tools/call", "expected an object with the list \"content\"");
  std::string text;
  for (const Json& part : result["content"]) {
    if (!part.is_object()) return error_at("tools/call", "a part of the content is not an object");
    const Json kind = part.value("type", Json()), part_text = part.value("text", Json());
    if (!text.empty()) text += '\n';
    if (kind == "text" && part_text.is_string())
      text += part_text.get<std::string>();
    else
      text += fmt::format("({} left out)", kind.is_string() ? quote(kind.get<std::string>()) : "a part");
  }
  if (result.value("isError", Json()) == Json(true)) return error_at("tool", "{}", text);
  return text;
}

std::optional<std::string> mcp_answer(const std::string& line, const std::vector<Tool>& tools,
                                      double seconds) {
  const auto message = read_mcp_message(line);
  if (!message.ok())
    return failure(
        nullptr,
        message.error().place == "message" && message.error().message.starts_with("expected an object")
            ? kInvalidRequest
            : kParseError,
        message.error().text());
  if (message->method.empty() || message->id.is_null()) return std::nullopt;
  const Json& id = message->id;
  const Json& params = message->parameters;
  if (message->method == "initialize") {
    // The client's version if it has the form of one: the messages used here are the same in all versions.
    const Json version = params.is_object() ? params.value("protocolVersion", Json()) : Json();
    const bool usable = version.is_string() && version.get_ref<const std::string&>().size() == 10;
    return answer(id, {{"protocolVersion", usable ? version : Json(kMcpVersion)},
                       {"capabilities", {{"tools", Json::object()}}},
                       {"serverInfo", {{"name", "makar"}, {"version", kMakarVersion}}}});
  }
  if (message->method == "ping") return answer(id, Json::object());
  if (message->method == "tools/list") return answer(id, tool_list(tools));
  if (message->method != "tools/call")
    return failure(id, kNoMethod, "unknown method " + quote(message->method));
  const Json name = params.is_object() ? params.value("name", Json()) : Json();
  const Tool* tool = nullptr;
  for (const Tool& one : tools)
    if (name == one.name) tool = &one;
  if (!tool) return failure(id, kBadParameters, "unknown tool " + quote(dump(name)));
  const Json input = params.value("arguments", Json::object());
  auto result = [&]() -> Result<std::string> {
    MAKAR_RETURN_IF_ERROR(check_input(tool->parameters, input));
    return tool->run(input, seconds);
  }();
  const std::string text = result.ok() ? *result : result.error().text();
  return answer(id,
                {{"content", Json::array({{{"type", "text"}, {"text", text}}})}, {"isError", !result.ok()}});
}

}  // namespace makar
