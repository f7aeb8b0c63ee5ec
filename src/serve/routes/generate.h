// The path that all generating routes share, from a parsed body to an AnswerWriter in the engine.
#pragma once
#include "serve/api/generation_request.h"
#include "serve/call.h"
#include "serve/serve_context.h"

namespace makar {

using RequestReader = Result<GenerationRequest> (*)(const Json& body, const RequestContext& context);

// Reads the body with `read` and answers it. A long prompt moves to the lane of long work first.
void generate_answer(ServeContext& server, Call& call, RequestReader read);
// The answer to a chat completion whose call names a collection.
void answer_from_collection(ServeContext& server, Call& call);
// Prepares a request and submits it to the engine of the call's model.
void begin_generation(ServeContext& server, Call& call, GenerationRequest& request);
RequestContext request_context(const ServeContext& server, const Call& call);

}  // namespace makar
