// What a client asks for and what it gets, whatever dialect it speaks. A dialect reads its JSON into an Ask
// and gives it an AnswerShape that tells the answer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "llm/write.h"
#include "serve/api/api_error.h"

namespace makar {

struct ToolCall {
  std::string id, name, arguments;  // arguments: the text of a JSON object
};

// What is new of one answer, or all of it.
struct AnswerPiece {
  std::string text;
  std::vector<Written> tokens;  // where log-probabilities are asked for; a rank of -1: there is none
  std::vector<ToolCall> calls;
  size_t first_call = 0;  // the number of calls[0]
  size_t text_begin = 0;  // characters of text before tokens[0]
};

struct AnswerEnd {
  Finish finish = Finish::kNone;
  std::string stop_string;
  bool calls = false;  // it calls tools
};

struct WholeAnswer : AnswerPiece {
  AnswerEnd end;
};

struct Usage {
  int64_t prompt = 0, completion = 0;
  int64_t cached = 0;  // of the prompt's, those that were known from earlier requests
};

class AnswerShape {
 public:
  virtual ~AnswerShape() = default;
  virtual std::string whole(const std::vector<WholeAnswer>& answers, const Usage& usage) = 0;
  // A stream, in this order: bytes for the client.
  virtual std::string begin(const Usage& usage) { return {}; }
  virtual std::string piece(size_t answer, const AnswerPiece& piece) = 0;
  virtual std::string end(size_t answer, const AnswerEnd& end) = 0;
  virtual std::string done(const Usage& usage) = 0;
  virtual std::string failed(const ApiError& error) = 0;
  virtual const char* stream_type() const { return "text/event-stream"; }
  virtual Dialect dialect() const = 0;
};

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // of kNamed
  bool parallel = true;
};

using PromptInput = std::variant<std::string, std::vector<int64_t>>;

struct Ask {
  std::optional<ChatInput> chat;     // or
  std::vector<PromptInput> prompts;  // texts or ids; an answer or more each
  WriteOptions write;
  bool max_given = false, seed_given = false;
  std::string schema, grammar, regex;  // at most one: what the answer is held to
  ToolChoice tool_choice;
  bool stream = false, echo = false, only_score = false;
  std::optional<std::string> suffix;  // what follows the gap that the answer fills
  bool drop_oldest = false;           // messages that do not fit are left out, the oldest first
  std::unique_ptr<AnswerShape> shape;
};

class ResponseStore;

// What a shape needs to know of the model.
struct AskContext {
  std::string model;                                   // as it is called
  WriteOptions defaults;                               // of the command line
  const std::vector<std::string>& tokens;              // the text of each id, special ones by their names
  int64_t created = 0;                                 // seconds since 1970
  std::string id;                                      // of the request: hexadecimal digits
  std::shared_ptr<ResponseStore> responses = nullptr;  // where answers are kept; none: they are not
  std::string owner = {};                              // whose they are
};

// The keys that all dialects of OpenAI's kind share: how tokens are chosen. Fills `ask.write`.
Status read_writing(const Json& body, Ask& ask);
// A schema, a grammar or a pattern that the answer is held to.
Status read_format(const Json& body, Ask& ask);

// Empty for an id that has no token.
const std::string& token_at(const std::vector<std::string>& tokens, int64_t id);

// "stop", "length" or "tool_calls".
const char* finish_reason(const AnswerEnd& end);

Json usage_json(const Usage& usage);
// "2026-01-31T12:00:00Z", of seconds since 1970.
std::string utc(int64_t seconds);

// One event of a stream.
std::string sse(const Json& data);
std::string sse(const std::string& event, const Json& data);

// The dialects: an Ask, or what is wrong with the body.
Result<Ask> read_chat_completion(const Json& body, const AskContext& context);
Result<Ask> read_completion(const Json& body, const AskContext& context);
Result<Ask> read_response(const Json& body, const AskContext& context);
Result<Ask> read_message(const Json& body, const AskContext& context);
Result<Ask> read_message_tokens(const Json& body, const AskContext& context);  // to be counted alone
Result<Ask> read_ollama_chat(const Json& body, const AskContext& context);
Result<Ask> read_ollama_generate(const Json& body, const AskContext& context);

}  // namespace makar
