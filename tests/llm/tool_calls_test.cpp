// Tool calls in every format, pushed in pieces of several sizes.
#include "llm/tool_calls.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

// The same text and calls, however the text is split into pieces.
void expect_calls(const std::string& text, const std::string& expected_text,
                  const std::vector<std::string>& calls) {
  for (const size_t step : {size_t{1}, size_t{3}, text.size()}) {
    ToolCallReader reader({"f", "g"}, true);
    std::string remaining_text;
    std::vector<std::string> found;
    const auto take = [&](const TextWithCalls& piece) {
      remaining_text += piece.text;
      for (const ToolCall& call : piece.calls) found.push_back(call.name + call.arguments);
    };
    for (size_t i = 0; i < text.size(); i += step) take(reader.push(text.substr(i, step)));
    take(reader.finish());
    EXPECT_EQ(remaining_text, expected_text) << text << " in steps of " << step;
    EXPECT_EQ(found, calls) << text << " in steps of " << step;
  }
}

TEST(ToolCalls, AreFoundInEveryTemplateFormat) {
  expect_calls("plain <b>text</b> {", "plain <b>text</b> {", {});
  expect_calls(
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
      "<tool_call>{\"name\":\"g\"}</tool_call>",
      "", {"f{\"a\":1}", "g{}"});
  expect_calls("I look. <tool_call>{\"name\":\"f\",\"arguments\":\"{}\"}</tool_call> \nthen", "I look. then",
               {"f{}"});
  expect_calls("{\"name\": \"f\", \"parameters\": {\"a\": [2]}}", "", {"f{\"a\":[2]}"});
  expect_calls("[TOOL_CALLS] [{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g\",\"arguments\":{}}]", "",
               {"f{}", "g{}"});
  expect_calls("<function=g>{\"x\": true}</function>", "", {"g{\"x\":true}"});
  expect_calls("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}", "",
               {"f{\"a\":1}"});  // cut off at the end
}

TEST(ToolCalls, CallsOfUnknownToolsStayText) {
  for (const std::string text :
       {"<tool_call>{\"name\":\"h\"}</tool_call>", "{\"name\":\"h\",\"parameters\":{}}", "{\"answer\": 42}",
        "<tool_call>{broken", "<function=f>[1]</function>", "[1, 2]", "[{"})
    expect_calls(text, text, {});
}

TEST(ToolCalls, WithoutParallelCallsOnlyTheFirstCounts) {
  ToolCallReader reader({"f", "g"}, false);
  reader.push("<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"g\"}</tool_call>");
  reader.finish();
  EXPECT_EQ(reader.calls(), 1u);
}

TEST(ToolCalls, TheSchemaNamesOneToolOrAll) {
  const Json tools = Json::parse(R"([{"function": {"name": "f"}},
                                     {"function": {"name": "g", "parameters": {"type": "object"}}}])");
  EXPECT_EQ(Json::parse(call_schema(tools, "g"))["properties"]["name"]["const"], "g");
  EXPECT_EQ(Json::parse(call_schema(tools, ""))["anyOf"].size(), 2u);
}

}  // namespace
}  // namespace makar
