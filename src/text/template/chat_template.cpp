#include "text/template/chat_template.h"

#include <algorithm>

#include "base/file.h"
#include "base/nearest.h"
#include "text/template/interpreter.h"
#include "text/template/parser.h"

namespace makar {
namespace {

using jinja::Heap;
using jinja::Kind;
using jinja::Origin;
using jinja::Traced;
using jinja::Value;

// Appended to the final message for rendering; located by its origin flag, not by its text.
constexpr const char* kMarker = "CONTINUE_FINAL_MESSAGE_TAG ";

Error to_error(const std::string& place, const jinja::Failure& f) {
  return {f.kind, f.line ? fmt::format("{}:{}:{}", place, f.line, f.column) : place, f.what()};
}

// The approximate size of the data; the limits grow with it.
int64_t data_size(const Json& json) {
  if (json.is_string()) return static_cast<int64_t>(json.get_ref<const std::string&>().size()) + 16;
  int64_t total = 16;
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      total += static_cast<int64_t>(key.size()) + data_size(value);
  else if (json.is_array())
    for (const auto& value : json) total += data_size(value);
  return total;
}

// Appends the marker to the text of the last message; false when it has no text.
bool mark_end(const Value& messages, Heap& heap) {
  if (!messages.is_sequence() || messages.items().empty() || !messages.items().back().is_dict()) return false;
  const auto append = [&](Value& text) {
    Traced t = text.traced();
    t.append(kMarker, jinja::kFromContent | jinja::kFromMarker);
    text = heap.string(std::move(t));
  };
  for (auto& [key, value] : messages.items().back().dict().items) {
    if (key.text() != "content") continue;
    if (value.is_string()) return append(value), true;
    if (!value.is_sequence()) return false;
    for (auto part = value.items().rbegin(); part != value.items().rend(); ++part) {
      if (!part->is_dict()) continue;
      for (auto& [k, v] : part->dict().items)
        if (k.text() == "text" && v.is_string()) return append(v), true;
    }
  }
  return false;
}

// Cuts the rendering at the end of the final message.
Result<Traced> cut_at_marker(const Traced& text, const std::string& place) {
  size_t begin = 0, found = std::string::npos, end = 0;
  for (const auto& range : text.ranges()) {
    if (range.origin & jinja::kFromMarker) {
      if (found == std::string::npos || begin != end) found = begin;
      end = range.end;
    }
    begin = range.end;
  }
  if (found == std::string::npos)
    return error_at(place, "the template does not print the final message, so it cannot be continued");
  // If the template trims messages, the marker's trailing blank is missing: then trim the message too.
  const bool trimmed = text.text().compare(found, end - found, kMarker) != 0;
  return text.slice(
      0,
      trimmed ? jinja::strip_range(std::string_view(text.text()).substr(0, found), false, true).end : found);
}

std::vector<ChatSegment> segments_of(const Traced& text) {
  std::vector<ChatSegment> out;
  size_t begin = 0;
  for (const auto& range : text.ranges()) {
    const bool content = range.origin & jinja::kFromContent, assistant = range.origin & jinja::kFromAssistant,
               reply = range.origin & jinja::kFromReply;
    if (out.empty() || out.back().content != content || out.back().assistant != assistant ||
        out.back().reply != reply)
      out.push_back({"", content, assistant, reply});
    out.back().text += text.text().substr(begin, range.end - begin);
    begin = range.end;
  }
  return out;
}

}  // namespace

std::string ChatRendering::text() const {
  std::string out;
  for (const ChatSegment& s : segments) out += s.text;
  return out;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& place,
                                         const TemplateLimits& limits) {
  ChatTemplate t;
  t.limits_ = limits;
  t.place_ = place;
  try {
    t.program_ = jinja::parse_template(source, limits);
  } catch (const jinja::Failure& f) {
    return to_error(place, f);
  }
  t.source_ = source;
  return t;
}

bool ChatTemplate::has_generation() const { return program_->has_generation; }

bool ChatTemplate::places_images() const {
  return source_.find("'image'") != std::string::npos || source_.find("\"image\"") != std::string::npos;
}

Result<ChatRendering> ChatTemplate::render(const ChatInput& input) const {
  if (!input.messages.is_array())
    return error_at("messages", "expected a list of messages, found {}", input.messages.type_name());
  if (!input.variables.is_object())
    return error_at("variables", "expected an object, found {}", input.variables.type_name());
  if (input.continue_final_message && input.add_generation_prompt)
    return error_at("messages", "continue_final_message and add_generation_prompt cannot be combined");
  const int64_t size = data_size(input.messages) + data_size(input.tools) + data_size(input.documents) +
                       data_size(input.variables);
  jinja::Budget budget(limits_, size, input.work);
  try {
    jinja::Interpreter interpreter(limits_, budget, input.now ? *input.now : std::time(nullptr));
    interpreter.strict = input.strict;
    Heap& heap = interpreter.heap;
    const Value messages = heap.messages(input.messages);
    if (input.continue_final_message && !mark_end(messages, heap))
      return error_at("messages", "continue_final_message requires a last message with text");
    interpreter.set("messages", messages);
    interpreter.set("tools", heap.content(input.tools));
    interpreter.set("documents", heap.content(input.documents));
    interpreter.set("add_generation_prompt", Value::boolean(input.add_generation_prompt));
    for (const auto& [name, text] : tokens_) interpreter.set(name, heap.string(text));
    for (const auto& [name, value] : input.variables.items()) interpreter.set(name, heap.content(value));
    Traced text = interpreter.run(*program_);
    if (input.continue_final_message) {
      MAKAR_TRY(text, cut_at_marker(text, place_));
    }
    return ChatRendering{segments_of(text), source_};
  } catch (const jinja::Failure& f) {
    return to_error(place_, f);
  }
}

}  // namespace makar
