// Anthropic's messages.
#include "serve/routes/generate.h"
#include "serve/routes/handlers.h"

namespace makar::routes {

void message(ServeContext& server, Call& call) { generate_answer(server, call, read_message); }

void count_message_tokens(ServeContext& server, Call& call) {
  const auto count = [&]() -> Result<Json> {
    const RequestContext context = request_context(server, call);
    MAKAR_TRY(GenerationRequest request, read_message_tokens(call.body, context));
    MAKAR_TRY(const auto prompts, prepare(request, call.model.served(), call.work));
    return Json{{"input_tokens", prompts.at(0).size()}};
  }();
  if (!count.ok()) return send_error(call, count.error());
  send_json(call, *count);
}

}  // namespace makar::routes
