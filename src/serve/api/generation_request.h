// Requests and answers, independent of the API. Each API parses its JSON into a GenerationRequest with an
// AnswerFormatter that writes the answer in its format.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "llm/text_generation.h"
#include "llm/tool_calls.h"
#include "serve/api/api_error.h"
#include "serve/output_filter.h"

namespace makar {

// A delta of one answer, or the whole answer.
struct AnswerPiece : TextWithCalls {
  std::vector<GeneratedToken> tokens;  // only with log-probabilities; rank -1: none
  std::vector<size_t> text_offsets;    // per token: characters of text before it
};

struct AnswerEnd {
  Finish finish = Finish::kUnfinished;
  std::string stop_string;
  bool calls = false;     // the answer contains tool calls
  bool filtered = false;  // the output filter ended it
};

struct CompleteAnswer : AnswerPiece {
  AnswerEnd end;
};

struct Usage {
  int64_t prompt = 0, completion = 0;
  int64_t cached = 0;  // prompt tokens found in the prefix cache
  std::optional<double> cost;
  std::string currency;  // with a cost
};

class AnswerFormatter {
 public:
  virtual ~AnswerFormatter() = default;
  // The body of a response that is not streamed.
  virtual std::string format_complete(const std::vector<CompleteAnswer>& answers, const Usage& usage) = 0;
  // For streams, called in this order; each returns bytes for the client.
  virtual std::string format_start(const Usage& usage) { return {}; }
  virtual std::string format_delta(size_t answer, const AnswerPiece& piece) = 0;
  virtual std::string format_end(size_t answer, const AnswerEnd& end) = 0;
  virtual std::string format_done(const Usage& usage) = 0;
  virtual std::string format_error(const ApiError& error) = 0;
  virtual const char* stream_type() const { return "text/event-stream"; }
  virtual Dialect dialect() const = 0;
  // The sources of the answers, and a function that compares an answer with them. Formats without a field for
  // them ignore both.
  virtual void add_sources(Json sources, std::function<Json(const std::string& answer)> grounding) {}
};

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // for kNamed
  bool parallel = true;
};

// An image of a conversation, not decoded yet. `place`: its field, for errors.
struct RequestImage {
  std::string bytes, place;
};

using PromptInput = std::variant<std::string, std::vector<int64_t>>;

struct GenerationRequest {
  std::optional<ChatInput> chat;     // a conversation; otherwise `prompts`
  std::vector<RequestImage> images;  // of the conversation; parts {"type": "image", "index"} refer to them
  std::vector<PromptInput> prompts;  // texts or ids; one or more answers per prompt
  TextGenerationOptions options;
  bool has_max_tokens = false, has_seed = false;
  std::string schema, grammar, regex;  // at most one is set: constrains the answer
  ToolChoice tool_choice;
  bool stream = false, echo = false, only_score = false;
  std::optional<std::string> suffix;           // text after the gap (infill)
  bool drop_oldest = false;                    // drop the oldest messages if the conversation does not fit
  std::shared_ptr<const OutputFilter> filter;  // null: answers are not filtered
  std::unique_ptr<AnswerFormatter> formatter;
};

class ResponseStore;

// Server and model data that formatters need.
struct RequestContext {
  std::string model;                                   // name in the request
  TextGenerationOptions defaults;                      // from the command line
  const std::vector<std::string>& tokens;              // text per id; special tokens by name
  int64_t created = 0;                                 // seconds since 1970
  std::string id;                                      // request id: hexadecimal digits
  std::shared_ptr<ResponseStore> responses = nullptr;  // stores answers; null: not stored
  std::string owner = {};                              // owner of stored answers
};

// Reads the sampling options common to all OpenAI-like dialects into `request.options`.
Status read_generation_options(const Json& body, GenerationRequest& request);
// Reads the schema, grammar or regex that constrains the answer.
Status read_format(const Json& body, GenerationRequest& request);

// The text of a token; empty for an unknown id.
const std::string& token_at(const std::vector<std::string>& tokens, int64_t id);

// "stop", "length", "tool_calls" or "content_filter".
const char* finish_reason(const AnswerEnd& end);

Json usage_json(const Usage& usage);
// Formats seconds since 1970 as "2026-01-31T12:00:00Z".
std::string utc(int64_t seconds);

// One server-sent event.
std::string sse(const Json& data);
std::string sse(const std::string& event, const Json& data);

// Parsers of the dialects: a GenerationRequest, or an error in the body.
Result<GenerationRequest> read_chat_completion(const Json& body, const RequestContext& context);
Result<GenerationRequest> read_completion(const Json& body, const RequestContext& context);
Result<GenerationRequest> read_response(const Json& body, const RequestContext& context);
Result<GenerationRequest> read_message(const Json& body, const RequestContext& context);
Result<GenerationRequest> read_message_tokens(const Json& body,
                                              const RequestContext& context);  // only to count tokens
Result<GenerationRequest> read_ollama_chat(const Json& body, const RequestContext& context);
Result<GenerationRequest> read_ollama_generate(const Json& body, const RequestContext& context);

}  // namespace makar
