#include "serve/routes/generate.h"

#include <algorithm>
#include <ctime>

#include "serve/answer_writer.h"
#include "serve/api/fields.h"
#include "serve/dispatch.h"

namespace makar {
namespace {

// Memory of a request during generation: ids (in the request and in the engine), conversation, texts.
int64_t prompt_memory(const GenerationRequest& request, const std::vector<std::vector<int64_t>>& prompts) {
  constexpr int64_t kBytesPerToken = 32, kBytesPerTextByte = 2;
  int64_t bytes =
      request.chat ? json_memory(dump(request.chat->messages)) + json_memory(dump(request.chat->tools)) : 0;
  for (const auto& ids : prompts) bytes += kBytesPerToken * static_cast<int64_t>(ids.size());
  for (const PromptInput& prompt : request.prompts)
    if (const auto* text = std::get_if<std::string>(&prompt))
      bytes += kBytesPerTextByte * static_cast<int64_t>(text->size());
  return bytes;
}

// An upper bound of the memory of answers until sent: tokens with log-probabilities, echoed prompts, and the
// JSON of both.
int64_t answer_memory(const GenerationRequest& request, const std::vector<std::vector<int64_t>>& prompts) {
  constexpr int64_t kBytesPerToken = 128, kBytesPerLogprob = 512, kBytesPerAlternative = 256,
                    kBytesPerEchoedByte = 6, kTextBytesPerToken = 16;
  const TextGenerationOptions& o = request.options;
  const int64_t per_token =
      kBytesPerToken + (o.logprobs < 0 ? 0 : kBytesPerLogprob + kBytesPerAlternative * o.logprobs);
  const int64_t answers = std::max({o.answers, o.best_of, o.beams, int64_t{1}});
  int64_t bytes = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto tokens = static_cast<int64_t>(prompts[i].size());
    int64_t per_answer = o.max_new_tokens * per_token;
    if (request.echo) {
      const auto* text = i < request.prompts.size() ? std::get_if<std::string>(&request.prompts[i]) : nullptr;
      per_answer += tokens * per_token + kBytesPerEchoedByte * (text ? static_cast<int64_t>(text->size())
                                                                     : kTextBytesPerToken * tokens);
    }
    bytes += answers * per_answer;
  }
  return bytes;
}

}  // namespace

void begin_generation(ServeContext& server, Call& call, GenerationRequest& request) {
  const std::string caller = server.access.caller(call.request);
  request.has_seed = request.has_seed || server.options.has_seed;
  request.options.adapter = call.model.adapter, request.options.priority = call.background ? -1 : 0;
  request.filter = server.options.filter;
  request.options.salt = caller;  // no prefix sharing between callers: prevents timing probes
  auto prompts = prepare(request, call.model.served(), call.work);
  if (!prompts.ok()) return send_error(call, prompts.error());
  call.reply->shrink_memory(prompt_memory(request, *prompts));
  const Status fits = call.reply->take_memory(answer_memory(request, *prompts), "its answers");
  if (!fits.ok()) return send_error(call, fits.error());
  if (request.options.constraint)
    request.options.constraint->compute_on(
        [&server, caller, active = std::weak_ptr(call.model.active)](std::function<void()> run) {
          WorkItem item{[run = std::move(run), active] {
                          run();
                          if (const auto model = active.lock()) model->loop.wake();
                        },
                        caller};
          item.is_long = true;
          return server.workers.post(std::move(item));
        });
  const auto time = time_limit(server, call);
  AnswerWriter::start(std::move(request), std::move(*prompts), std::move(call.model), std::move(call.reply),
                      std::move(call.ticket), time, on_worker(server, caller));
}

RequestContext request_context(const ServeContext& server, const Call& call) {
  return {call.model.name,
          server.options.defaults,
          call.model.served().tokens,
          static_cast<int64_t>(std::time(nullptr)),
          random_id(),
          server.responses,
          call.owner};
}

void generate_answer(ServeContext& server, Call& call, RequestReader read) {
  const RequestContext context = request_context(server, call);
  auto request = read(call.body, context);
  if (!request.ok()) return send_error(call, request.error());
  call.body = {};
  const size_t bytes = preparation_bytes(*request);
  if (call.is_long || bytes <= kMaxShortBytes) return begin_generation(server, call, *request);
  const auto shared_call = std::make_shared<Call>(std::move(call));
  post_step(server, shared_call, bytes,
            [&server, shared_request = std::make_shared<GenerationRequest>(std::move(*request))](
                Call& posted_call) { begin_generation(server, posted_call, *shared_request); });
}

}  // namespace makar
