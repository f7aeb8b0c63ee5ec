// The handlers of all routes, by file.
#pragma once
#include "serve/call.h"
#include "serve/serve_context.h"

namespace makar::routes {

// status.cpp
void health(ServeContext& server, Call& call);
void ready(ServeContext& server, Call& call);
void metrics(ServeContext& server, Call& call);

// openai.cpp
void list_models(ServeContext& server, Call& call);
void chat_completion(ServeContext& server, Call& call);
void completion(ServeContext& server, Call& call);

// responses.cpp
void create_response(ServeContext& server, Call& call);
void stored_response(ServeContext& server, Call& call);
void delete_response(ServeContext& server, Call& call);

// anthropic.cpp
void message(ServeContext& server, Call& call);
void count_message_tokens(ServeContext& server, Call& call);

// ollama.cpp
void ollama_chat(ServeContext& server, Call& call);
void ollama_generate(ServeContext& server, Call& call);
void ollama_embed(ServeContext& server, Call& call);
void ollama_tags(ServeContext& server, Call& call);
void ollama_loaded(ServeContext& server, Call& call);
void ollama_show(ServeContext& server, Call& call);
void ollama_version(ServeContext& server, Call& call);

// embeddings.cpp
void embeddings(ServeContext& server, Call& call);

// ranking.cpp
void rerank(ServeContext& server, Call& call);
void moderations(ServeContext& server, Call& call);

// tokens.cpp
void tokenize(ServeContext& server, Call& call);
void detokenize(ServeContext& server, Call& call);

// score.cpp
void score(ServeContext& server, Call& call);

// files.cpp
void upload_file(ServeContext& server, Call& call);
void files(ServeContext& server, Call& call);

// batches.cpp
void create_batch(ServeContext& server, Call& call);
void batches(ServeContext& server, Call& call);

// fine_tuning.cpp
void create_tuning_job(ServeContext& server, Call& call);
void tuning_jobs(ServeContext& server, Call& call);
void delete_model(ServeContext& server, Call& call);

// page.cpp
void page_asset(ServeContext& server, Call& call);
void page_data(ServeContext& server, Call& call);
void look(ServeContext& server, Call& call);
void engine_state(ServeContext& server, Call& call);

}  // namespace makar::routes
