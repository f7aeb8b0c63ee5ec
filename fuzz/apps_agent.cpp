// Any text as a reply of a model, as an expression, and as a message of an MCP server.
#include "apps/agent.h"
#include "apps/calculator.h"
#include "apps/mcp.h"
#include "apps/tools.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(apps_agent) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const AgentFormat format : {AgentFormat::kJson, AgentFormat::kText})
    if (const auto step = read_reply(text, format); step.ok())
      check(step->tool.empty() != step->answer.empty(), "a step is a call or an answer");
  if (size < 2000)
    if (const auto value = calculate(text); value.ok()) check(!value->empty(), "a value is not empty");
  if (const auto host = host_of(text); host.ok())
    check(host->find('/') == std::string::npos, "a host has no path");
  const std::vector<Tool> tools = {calculator_tool()};
  if (const auto reply = mcp_answer(text, tools, 1))
    check(parse_json(*reply, "reply").ok(), "an MCP reply is JSON");
  if (const auto message = read_mcp_message(text); message.ok()) {
    (void)read_mcp_tools(message->result, "x").ok();
    (void)read_mcp_content(message->result).ok();
  }
  return 0;
}
