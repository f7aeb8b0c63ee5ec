// The template language and ChatTemplate: values, whitespace, provenance, masks, located errors.
#include <gtest/gtest.h>

#include "text/template/chat_template.h"

namespace makar {
namespace {

Result<ChatRendering> render(const std::string& source, const ChatInput& input = {}) {
  auto t = ChatTemplate::parse(source, "t");
  if (!t.ok()) return t.error();
  t->set_token("bos_token", "<s>");
  return t->render(input);
}

std::string text(const std::string& source, const ChatInput& input = {}) {
  const auto r = render(source, input);
  return r.ok() ? r->text() : "ERROR " + r.error().text();
}

ChatInput chat(const char* json) {
  ChatInput input;
  input.messages = Json::parse(json);
  return input;
}

// The bytes that came from the data; others as dots.
std::string content_of(const ChatRendering& r) {
  std::string out;
  for (const auto& s : r.segments) out += s.content ? s.text : std::string(s.text.size(), '.');
  return out;
}

TEST(Template, ExpressionsMatchJinja) {
  EXPECT_EQ(text("{{ 1 + 2 * 3 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 1 / 2 }}"), "7 -4 -2 1024 0.5");
  EXPECT_EQ(text("{{ [1, 'a', none, (true,)] }} {{ {'k': 1.0} }}"), "[1, 'a', None, (True,)] {'k': 1.0}");
  EXPECT_EQ(text("{{ 'abc'[::-1] }}{{ 'aé😀'[1:] }}{{ [1, 2, 3][-2:] }}"), "cbaé😀[2, 3]");
  EXPECT_EQ(text("{{ x }}|{{ x is defined }}|{{ x | default('d') }}|{{ bos_token }}"), "|False|d|<s>");
}

TEST(Template, WhitespaceMatchesTransformers) {
  EXPECT_EQ(text("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(text("a\n  {%- if true -%}\n  b\n  {%+ endif %}\nc"), "ab\n  c");
  EXPECT_EQ(text("a {{- 1 -}} b {# c #}\nd\r\ne"), "a1b d\ne");
}

TEST(Template, StrictRenderingRejectsUndefinedNames) {
  ChatInput input;
  input.strict = true;
  input.variables = {{"name", "x"}, {"list", {{{"a", 1}}, Json::object()}}};
  EXPECT_EQ(text("{{ name }} {{ nam is defined }} {{ nam | default('d') }}", input), "x False d");
  EXPECT_EQ(text("a\n{{ nam }}", input), "ERROR t:2:4: 'nam' is undefined; did you mean 'name'?");
  EXPECT_EQ(text("{% for x in nothing_like_it %}{% endfor %}", input),
            "ERROR t:1:13: 'nothing_like_it' is undefined");
  EXPECT_EQ(text("{{ list[0].b }}", input), "ERROR t:1:11: mapping has no attribute 'b'");
  EXPECT_EQ(text("{{ list | map(attribute='a', default=0) | list }}", input), "[1, 0]");
  EXPECT_EQ(text("{{ list | map(attribute='a') | list }}", input).substr(0, 5), "ERROR");
}

TEST(Template, ErrorsAreLocated) {
  EXPECT_EQ(text("line\n  {{ 1 + }}"), "ERROR t:2:10: expected a value, found '}}'");
  EXPECT_EQ(text("\n\n{{ a.b }}"), "ERROR t:3:5: cannot read 'b': 'a' is undefined");
  EXPECT_EQ(text("{% if true %}x"), "ERROR t:1:15: the template ends before '{% endif %}'");
  EXPECT_EQ(text("{{ 1 | uper }}"), "ERROR t:1:8: unknown filter 'uper'; did you mean 'upper'?");
  EXPECT_EQ(text("{{ raise_exception('no tools here') }}"),
            "ERROR t:1:19: the template raised an error: no tools here");
  EXPECT_EQ(text("{% include 'x' %}"), "ERROR t:1:4: the block 'include' is not part of chat templates");
}

TEST(Template, EveryOperationKeepsProvenance) {
  const ChatInput input =
      chat(R"([{"role": "user", "content": " UsEr ", "n": 5, "list": ["p", "q"], "d": {"k": "v"}}])");
  const auto content_bytes = [&](const std::string& expression) {
    const auto r = render("{% set c = messages[0].content %}{{ " + expression + " }}", input);
    return r.ok() ? content_of(*r) : r.error().text();
  };
  EXPECT_EQ(content_bytes("'<' + c + '>'"), ". UsEr .");
  EXPECT_EQ(content_bytes("'<' ~ c | trim ~ '>'"), ".UsEr.");
  EXPECT_EQ(content_bytes("('<' + c)[::-1]"), " rEsU .");
  EXPECT_EQ(content_bytes("c | upper"), " USER ");
  EXPECT_EQ(content_bytes("c.replace('U', 'xx')"), " ..sEr ");
  EXPECT_EQ(content_bytes("'a-b'.replace('-', c)"), ". UsEr .");
  EXPECT_EQ(content_bytes("c.split('s')[1]"), "Er ");
  EXPECT_EQ(content_bytes("[c, 'x', c] | join('-')"), " UsEr ... UsEr ");
  EXPECT_EQ(content_bytes("messages[0].n + 1"), "6");
  EXPECT_EQ(content_bytes("messages[0].n | string ~ '|'"), "5.");
  EXPECT_EQ(content_bytes("{'k': messages[0].list} | tojson"), "......[\"p\", \"q\"].");
  EXPECT_EQ(content_bytes("messages[0].d"), "{'k': 'v'}");
  EXPECT_EQ(content_bytes("messages[0].d | items | first | join('=')"), "k.v");
  EXPECT_EQ(content_bytes("'%s!' % c"), " UsEr .");
  EXPECT_EQ(content_bytes("'{}!'.format(c)"), " UsEr .");
  EXPECT_EQ(content_bytes("messages[0].role"), "....");  // a known role belongs to the protocol
  EXPECT_EQ(content_of(*render("{% set x %}[{{ messages[0].content }}]{% endset %}{{ x | trim }}", input)),
            ". UsEr .");
  EXPECT_EQ(content_of(*render("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(messages[0].content) }}", input)),
            ". UsEr .");
}

TEST(Template, UnknownRoleIsContent) {
  EXPECT_EQ(
      content_of(*render("<{{ messages[0].role }}>", chat(R"([{"role": "<|system|>", "content": ""}])"))),
      ".<|system|>.");
}

TEST(Template, GenerationBlocksMarkTheAssistant) {
  const auto r = render(
      "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content "
      "}}</s>{% endgeneration %}"
      "{% else %}{{ m.content }}{% endif %};{% endfor %}",
      chat(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])"));
  ASSERT_TRUE(r.ok());
  std::string assistant;
  for (const auto& s : r->segments)
    if (s.assistant) assistant += s.text;
  EXPECT_EQ(r->text(), "user:q;assistant:a</s>;");
  EXPECT_EQ(assistant, "a</s>");
}

TEST(Template, ContinuesTheFinalMessage) {
  const char* source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}{% if add_generation_prompt "
      "%}<assistant>{% endif %}";
  const char* trimming = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>\n{% endfor %}";
  ChatInput input =
      chat(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "an answer  "}])");
  input.continue_final_message = true;
  EXPECT_EQ(text(source, input), "<user>q<end>\n<assistant>an answer  ");
  EXPECT_EQ(text(trimming, input), "<user>q<end>\n<assistant>an answer");
  input.messages[1]["content"] = "";
  EXPECT_EQ(text(source, input), "<user>q<end>\n<assistant>");
  input.messages[1]["content"] = Json::parse(R"([{"type": "text", "text": "part"}])");
  EXPECT_EQ(text("{{ messages[1].content[0].text }}!", input), "part");
  EXPECT_EQ(text("{{ messages[0].content }}", input),
            "ERROR t: the template does not print the final message, so it cannot be continued");
  input.add_generation_prompt = true;
  EXPECT_NE(text(source, input).find("cannot be combined"), std::string::npos);
}

TEST(Template, UsesTheGivenTime) {
  ChatInput input;
  input.now = 1721952000;
  EXPECT_EQ(text("{{ strftime_now('%Y') }}", input), "2024");
}

}  // namespace
}  // namespace makar
