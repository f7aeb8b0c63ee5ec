// makar template render: renders messages with a chat template, as text or segments.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/run.h"
#include "text/template/chat_template.h"

namespace makar {
namespace {

struct RenderOptions {
  std::string template_path, tokenizer, name, messages, tools, documents, set;
  bool add_generation_prompt = false, continue_final_message = false, segments = false, json = false,
       jsonl = false;
};

std::string read_all(std::istream& in) { return {std::istreambuf_iterator<char>(in), {}}; }

Result<Json> read_data(const std::string& path) {
  if (path == "-") return parse_json(read_all(std::cin), "standard input");
  return read_json(path);
}

Json segments_json(const ChatRendering& rendering) {
  Json out = Json::array();
  for (const ChatSegment& s : rendering.segments)
    out.push_back(
        {{"text", s.text}, {"from", s.content ? "content" : "template"}, {"assistant", s.assistant}});
  return out;
}

Json rendering_json(const ChatRendering& rendering, bool segments) {
  Json out = {{"text", rendering.text()}};
  if (segments) out["segments"] = segments_json(rendering);
  return out;
}

// A conversation is a list of messages, or an object with messages and optionally tools, documents, variables
// and the two flags.
void take_fields(const Json& data, ChatInput& input) {
  if (!data.is_object()) {
    input.messages = data;
    return;
  }
  if (data.contains("messages")) input.messages = data["messages"];
  if (data.contains("tools")) input.tools = data["tools"];
  if (data.contains("documents")) input.documents = data["documents"];
  if (data.contains("variables")) input.variables = data["variables"];
  const auto flag = [&](const char* name, bool& to) {
    if (data.contains(name) && data[name].is_boolean()) to = data[name].get<bool>();
  };
  flag("add_generation_prompt", input.add_generation_prompt);
  flag("continue_final_message", input.continue_final_message);
}

Result<ChatTemplate> read_template(const RenderOptions& o) {
  if (!o.template_path.empty()) {
    MAKAR_TRY(const std::string source, read_file(o.template_path, size_t{1} << 20));
    return ChatTemplate::parse(source, o.template_path);
  }
  return ChatTemplate::load(o.tokenizer, o.name);
}

Result<ChatInput> read_input(const RenderOptions& o) {
  ChatInput input;
  input.add_generation_prompt = o.add_generation_prompt;
  input.continue_final_message = o.continue_final_message;
  MAKAR_TRY(const Json data, read_data(o.messages));
  take_fields(data, input);
  if (!o.tools.empty()) {
    MAKAR_TRY(input.tools, read_data(o.tools));
  }
  if (!o.documents.empty()) {
    MAKAR_TRY(input.documents, read_data(o.documents));
  }
  if (!o.set.empty()) {
    MAKAR_TRY(input.variables, parse_json(o.set, "--set"));
  }
  return input;
}

// One line: {"template"?, "messages", ...} in, {"text"} or {"error"} out.
Result<Json> render_line(const std::string& line, const ChatTemplate* default_template, bool segments) {
  MAKAR_TRY(const Json data, parse_json(line, "line"));
  if (!data.is_object()) return error_at("line", "expected an object, found {}", data.type_name());
  ChatInput input;
  take_fields(data, input);
  if (!data.contains("template")) {
    if (!default_template)
      return error_at("line", "has no template, and none is given by --template or --tokenizer");
    MAKAR_TRY(const ChatRendering rendering, default_template->render(input));
    return rendering_json(rendering, segments);
  }
  if (!data["template"].is_string()) return error_at("line", "template must be a string");
  MAKAR_TRY(ChatTemplate line_template,
            ChatTemplate::parse(data["template"].get_ref<const std::string&>(), "template"));
  if (data.contains("tokens") && data["tokens"].is_object())
    for (const auto& [name, token] : data["tokens"].items())
      if (token.is_string()) line_template.set_token(name, token.get<std::string>());
  MAKAR_TRY(const ChatRendering rendering, line_template.render(input));
  return rendering_json(rendering, segments);
}

int run_lines(const RenderOptions& o) {
  std::optional<ChatTemplate> default_template;
  if (!o.template_path.empty() || !o.tokenizer.empty()) {
    auto loaded = read_template(o);
    if (!loaded.ok()) return report(loaded.error());
    default_template = *loaded;
  }
  int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    const auto result = render_line(line, default_template ? &*default_template : nullptr, o.segments);
    const Json out = result.ok() ? *result
                                 : Json{{"error",
                                         {{"message", result.error().text()},
                                          {"kind", name(result.error().kind)},
                                          {"line", number}}}};
    fmt::print("{}\n", dump(out));
  }
  return 0;
}

// On a terminal: content in cyan, template text of the assistant's turns in yellow, other template text
// plain. Otherwise one JSON object per segment.
void print_segments(const ChatRendering& rendering) {
  if (!isatty(STDOUT_FILENO)) {
    for (const Json& segment : segments_json(rendering)) fmt::print("{}\n", segment.dump());
    return;
  }
  for (const ChatSegment& s : rendering.segments)
    fmt::print("{}{}\033[0m", s.content ? "\033[36m" : s.assistant ? "\033[33m" : "", s.text);
}

int run_render(const std::vector<std::string>& arguments) {
  RenderOptions o;
  Options options("template render", "Render messages through a chat template.",
                  "makar template render --tokenizer model/ --messages chat.json --add-generation-prompt");
  options.group("Template");
  options.add("-m --model --tokenizer", &o.tokenizer, "model folder with the template and its special tokens",
              "DIR");
  options.add("--template", &o.template_path, "file with the template", "FILE");
  options.add("--name", &o.name, "name of the template, if the folder has several", "NAME");
  options.group("Input");
  options.add(
      "--messages", &o.messages,
      "JSON file: a list of messages, or an object with messages, tools, documents; - for standard input",
      "FILE");
  options.add("--tools", &o.tools, "JSON file with a list of tools", "FILE");
  options.add("--documents", &o.documents, "JSON file with a list of documents", "FILE");
  options.add("--set", &o.set, "more template variables, as a JSON object", "JSON");
  options.add("--add-generation-prompt", &o.add_generation_prompt,
              "end with the start of the assistant's message");
  options.add("--continue-final-message", &o.continue_final_message,
              "do not end the last message, so that the model continues it");
  options.group("Output");
  options.add("--segments", &o.segments,
              "mark which text comes from the template and which from the messages");
  options.add("--json", &o.json, "print one JSON object");
  options.add("--jsonl", &o.jsonl,
              "read one JSON object per line from standard input and print one per line");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (o.jsonl) return run_lines(o);
  if (o.messages.empty() || o.template_path.empty() == o.tokenizer.empty())
    return report(error_at("template render", "needs --messages, and either --template or --model")), 2;
  const auto t = read_template(o);
  if (!t.ok()) return report(t.error());
  const auto input = read_input(o);
  if (!input.ok()) return report(input.error());
  if (input->tools.is_array() && !input->tools.empty() && t->source().find("tools") == std::string::npos)
    warn("the tools have no effect: the template does not use them");
  const auto rendering = t->render(*input);
  if (!rendering.ok()) return report(rendering.error());
  if (o.json)
    fmt::print("{}\n", rendering_json(*rendering, o.segments).dump());
  else if (o.segments)
    print_segments(*rendering);
  else
    std::fwrite(rendering->text().data(), 1, rendering->text().size(), stdout);
  return 0;
}

}  // namespace

int run_template(const std::vector<std::string>& arguments) {
  constexpr Command kTemplateCommands[] = {
      {"render", "render messages through a chat template", run_render},
  };
  return run_subcommand("template", "Render chat templates.",
                        "makar template render -m MODEL --messages chat.json", kTemplateCommands, arguments);
}

}  // namespace makar
