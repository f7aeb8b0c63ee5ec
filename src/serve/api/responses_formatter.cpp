#include "serve/api/responses_formatter.h"

#include "serve/api/fields.h"

namespace makar {
namespace {

const char* status_of(const AnswerEnd& end) {
  return end.filtered || end.finish == Finish::kLength || end.finish == Finish::kTime ? "incomplete"
                                                                                      : "completed";
}

Json call_item(const Json& id, const ToolCall& call, const char* status, const std::string& arguments) {
  return {{"id", id},           {"type", "function_call"}, {"status", status},
          {"call_id", call.id}, {"name", call.name},       {"arguments", arguments}};
}

}  // namespace

ResponsesFormatter::ResponsesFormatter(const RequestContext& c, Json head, bool logprobs, Json input,
                                       std::shared_ptr<ResponseStore> store)
    : id_(c.id),
      owner_(c.owner),
      tokens_(c.tokens),
      logprobs_(logprobs),
      input_(std::move(input)),
      store_(std::move(store)) {
  response_ = {{"id", "resp_" + c.id},    {"object", "response"},    {"created_at", c.created},
               {"status", "in_progress"}, {"error", nullptr},        {"incomplete_details", nullptr},
               {"model", c.model},        {"output", Json::array()}, {"store", store_ != nullptr}};
  for (auto& [key, value] : head.items()) response_[key] = std::move(value);
  response_["usage"] = nullptr;
}

Json ResponsesFormatter::item_id(const char* prefix) const {
  return fmt::format("{}_{}{:02}", prefix, id_, response_["output"].size());
}

Json ResponsesFormatter::part() const {
  return {
      {"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", text_logprobs_}};
}

std::string ResponsesFormatter::event(const char* type, Json data) {
  Json out = {{"type", type}, {"sequence_number", sequence_++}};
  for (auto& [key, value] : data.items()) out[key] = std::move(value);
  return sse(type, out);
}

std::string ResponsesFormatter::text_event(const char* type, Json data) {
  const Json& item = response_["output"].back();
  Json out = {
      {"item_id", item["id"]}, {"output_index", response_["output"].size() - 1}, {"content_index", 0}};
  for (auto& [key, value] : data.items()) out[key] = std::move(value);
  return event(type, std::move(out));
}

std::string ResponsesFormatter::open_message() {
  in_message_ = true, text_.clear(), text_logprobs_ = Json::array();
  const Json item = {{"id", item_id("msg")},
                     {"type", "message"},
                     {"status", "in_progress"},
                     {"role", "assistant"},
                     {"content", Json::array()}};
  const size_t index = response_["output"].size();
  response_["output"].push_back(item);
  std::string out = event("response.output_item.added", {{"output_index", index}, {"item", item}});
  return out + text_event("response.content_part.added", {{"part", part()}});
}

std::string ResponsesFormatter::close_message(const char* status) {
  if (!in_message_) return {};
  in_message_ = false;
  Json& item = response_["output"].back();
  item["status"] = status, item["content"] = Json::array({part()});
  std::string out = text_event("response.output_text.done", {{"text", text_}, {"logprobs", text_logprobs_}});
  out += text_event("response.content_part.done", {{"part", part()}});
  return out + event("response.output_item.done",
                     {{"output_index", response_["output"].size() - 1}, {"item", item}});
}

std::string ResponsesFormatter::call_events(const ToolCall& call) {
  const Json id = item_id("fc");
  const size_t index = response_["output"].size();
  const Json item = call_item(id, call, "completed", call.arguments);
  std::string out = event("response.output_item.added",
                          {{"output_index", index}, {"item", call_item(id, call, "in_progress", "")}});
  out += event("response.function_call_arguments.delta",
               {{"item_id", id}, {"output_index", index}, {"delta", call.arguments}});
  out +=
      event("response.function_call_arguments.done",
            {{"item_id", id}, {"output_index", index}, {"name", call.name}, {"arguments", call.arguments}});
  response_["output"].push_back(item);
  return out + event("response.output_item.done", {{"output_index", index}, {"item", item}});
}

void ResponsesFormatter::complete(const AnswerEnd& end, const Usage& usage) {
  response_["status"] = status_of(end);
  if (response_["status"] == "incomplete")
    response_["incomplete_details"] = {{"reason", end.filtered ? "content_filter" : "max_output_tokens"}};
  response_["usage"] = {{"input_tokens", usage.prompt},
                        {"input_tokens_details", {{"cached_tokens", usage.cached}}},
                        {"output_tokens", usage.completion},
                        {"output_tokens_details", {{"reasoning_tokens", 0}}},
                        {"total_tokens", usage.prompt + usage.completion}};
  if (store_) store_->add(owner_, response_, std::move(input_));
}

// Uses the streaming path and discards the events.
std::string ResponsesFormatter::format_complete(const std::vector<CompleteAnswer>& answers,
                                                const Usage& usage) {
  format_delta(0, answers.at(0));
  format_end(0, answers[0].end);
  complete(answers[0].end, usage);
  return dump(response_);
}

std::string ResponsesFormatter::format_start(const Usage&) {
  return event("response.created", {{"response", response_}}) +
         event("response.in_progress", {{"response", response_}});
}

std::string ResponsesFormatter::format_delta(size_t, const AnswerPiece& piece) {
  std::string out;
  if (!piece.text.empty()) {
    if (!in_message_) out += open_message();
    const Json logprobs = logprobs_ ? logprobs_json(piece.tokens, tokens_) : Json::array();
    text_ += piece.text;
    for (const Json& one : logprobs) text_logprobs_.push_back(one);
    out += text_event("response.output_text.delta", {{"delta", piece.text}, {"logprobs", logprobs}});
  }
  for (const ToolCall& call : piece.calls) {
    out += close_message("completed");
    out += call_events(call);
  }
  return out;
}

std::string ResponsesFormatter::format_end(size_t, const AnswerEnd& end) {
  end_ = end;
  std::string out;
  if (response_["output"].empty()) out += open_message();
  return out + close_message(status_of(end));
}

std::string ResponsesFormatter::format_done(const Usage& usage) {
  complete(end_, usage);
  const bool completed = response_["status"] == "completed";
  return event(completed ? "response.completed" : "response.incomplete", {{"response", response_}});
}

std::string ResponsesFormatter::format_error(const ApiError& error) {
  response_["status"] = "failed";
  response_["error"] = {{"code", "server_error"}, {"message", error.message}};
  return event("error", {{"code", error.code ? Json(*error.code) : Json()},
                         {"message", error.message},
                         {"param", error.param ? Json(*error.param) : Json()}}) +
         event("response.failed", {{"response", response_}});
}

}  // namespace makar
