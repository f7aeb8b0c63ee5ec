// Any bytes as a chat template, rendered with a small conversation: an Error, or segments that are not empty
// and alternate, in which no marked byte of the conversation is attributed to the template.
#include "target.h"
#include "text/template/chat_template.h"

using namespace makar;

FUZZ_TARGET(text_template) {
  TemplateLimits limits;
  limits.max_work = 20'000;  // keeps the fuzzer fast
  limits.max_memory_bytes = 1 << 20;
  auto t = ChatTemplate::parse({reinterpret_cast<const char*>(data), size}, "fuzz", limits);
  if (!t.ok()) return 0;
  t->set_token("bos_token", "<s>");
  t->set_token("eos_token", "</s>");
  ChatInput input;
  // U+E000 marks the content. A template that contains the character itself is not checked.
  const std::string mark = "\xEE\x80\x80";
  input.messages = {{{"role", "system"}, {"content", mark}},
                    {{"role", "user"}, {"content", mark + " " + mark}, {"n", 3}},
                    {{"role", "assistant"},
                     {"content", mark},
                     {"tool_calls", {{{"function", {{"name", mark}, {"arguments", {{"a", 1.5}}}}}}}}}};
  input.tools = {{{"type", "function"}, {"function", {{"name", mark}}}}};
  input.now = 0;
  input.add_generation_prompt = size & 1;
  const auto r = t->render(input);
  if (!r.ok()) {
    check(r.error().text().size() < 5000, "a bounded message");
    return 0;
  }
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const bool spelled =
      source.find(mark) != std::string_view::npos || source.find('\\') != std::string_view::npos;
  for (size_t i = 0; i < r->segments.size(); ++i) {
    const ChatSegment& s = r->segments[i];
    check(!s.text.empty(), "no empty segments");
    check(spelled || s.content || s.text.find(mark) == std::string::npos, "content is marked as content");
    if (i)
      check(s.content != r->segments[i - 1].content || s.assistant != r->segments[i - 1].assistant ||
                s.reply != r->segments[i - 1].reply,
            "neighbours differ");
  }
  input.add_generation_prompt = false;
  input.continue_final_message = true;
  (void)t->render(input).ok();
  return 0;
}
