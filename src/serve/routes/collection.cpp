// Chat completions of a collection: its passages go into the conversation, and the answer names its sources.
#include "serve/collection.h"

#include "serve/dispatch.h"
#include "serve/routes/generate.h"
#include "serve/routes/handlers.h"

namespace makar {
namespace {

std::string content_of(const Json& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() ? content->get<std::string>() : "";
}

// An answer without a model: nothing relevant was found.
void send_nothing_found(Call& call, GenerationRequest& request) {
  CompleteAnswer answer;
  answer.text = kNothingFound;
  answer.end.finish = Finish::kStop;
  AnswerFormatter& formatter = *request.formatter;
  formatter.add_sources(Json::array(), {});
  HttpResponse response;
  if (!request.stream) {
    response.body = formatter.format_complete({answer}, {}) + "\n";
    return call.reply->send(std::move(response));
  }
  response.type = formatter.stream_type();
  response.body = formatter.format_start({}) + formatter.format_delta(0, answer) +
                  formatter.format_end(0, answer.end) + formatter.format_done({});
  call.reply->begin(std::move(response));
  call.reply->end();
}

Status add_passages(Call& call, GenerationRequest& request, bool& found) {
  Json& messages = request.chat->messages;
  size_t at = messages.size();
  while (at > 0 && messages[at - 1]["role"] != "user") --at;
  if (at == 0)
    return error_at("messages", "a collection answers the last message of the user; there is none");
  --at;
  const std::string question = content_of(messages[at]);
  MAKAR_TRY(auto sources, call.collection->find(question));
  // A question such as "And in winter?" needs the one before.
  for (size_t i = at; sources.empty() && call.collection->terms(question) < 2 && i-- > 0;)
    if (messages[i]["role"] == "user") {
      MAKAR_TRY(sources, call.collection->find(content_of(messages[i]) + "\n" + question));
      break;
    }
  found = !sources.empty();
  if (!found) return Done{};
  const LanguageModel& language = call.model.language();
  if (!language.chat_template())
    return error_of(
        Error::Kind::kUnsupported, "messages",
        "the model of this collection has no chat template; start the server with --chat-template");
  const int64_t context = call.model.served().context_limit();
  const int64_t answer_tokens = request.has_max_tokens
                                    ? request.options.max_new_tokens
                                    : std::min(request.options.max_new_tokens, context / 4);
  ChatInput input = *request.chat;
  input.work = &call.work;
  const auto fitted = fit_sources(
      [&](const std::vector<SearchHit>& some) {
        input.messages = ask_messages(messages, at, some);
        return language.encode_chat(input);
      },
      context, answer_tokens, sources);
  if (!fitted.ok()) return Error{fitted.error().kind, "messages", fitted.error().message};
  messages = ask_messages(messages, at, sources);
  Json list = sources_json(sources);
  request.formatter->add_sources(
      std::move(list), [collection = call.collection, hits = std::move(sources)](const std::string& text) {
        return collection->grounding(text, hits);
      });
  return Done{};
}

}  // namespace

void answer_from_collection(ServeContext& server, Call& call) {
  auto request = read_chat_completion(call.body, request_context(server, call));
  if (!request.ok()) return send_error(call, request.error());
  if (request->chat->tools.is_array() && !request->chat->tools.empty())
    return send_error(call, error_of(Error::Kind::kUnsupported, "tools",
                                     "tools cannot be used with a collection; remove them"));
  call.body = {};
  const auto shared_call = std::make_shared<Call>(std::move(call));
  // Embedding a query takes longer than the short lane allows.
  post_step(server, shared_call, kMaxShortBytes + 1,
            [&server,
             shared_request = std::make_shared<GenerationRequest>(std::move(*request))](Call& posted_call) {
              bool found = false;
              if (const Status added = add_passages(posted_call, *shared_request, found); !added.ok())
                return send_error(posted_call, added.error());
              if (!found) return send_nothing_found(posted_call, *shared_request);
              begin_generation(server, posted_call, *shared_request);
            });
}

}  // namespace makar
