// Writes the answers of /v1/responses: one object, or its typed events in order.
#pragma once
#include "serve/api/openai_formatter.h"
#include "serve/api/response_store.h"

namespace makar {

class ResponsesFormatter : public AnswerFormatter {
 public:
  // `head`: request fields that the answer repeats. The answer is saved in `store` unless it is null.
  ResponsesFormatter(const RequestContext& context, Json head, bool logprobs, Json input,
                     std::shared_ptr<ResponseStore> store);
  Dialect dialect() const override { return Dialect::kOpenAi; }
  std::string format_complete(const std::vector<CompleteAnswer>& answers, const Usage& usage) override;
  std::string format_start(const Usage& usage) override;
  std::string format_delta(size_t answer, const AnswerPiece& piece) override;
  std::string format_end(size_t answer, const AnswerEnd& end) override;
  std::string format_done(const Usage& usage) override;
  std::string format_error(const ApiError& error) override;

 private:
  std::string event(const char* type, Json data);
  std::string text_event(const char* type, Json data);
  std::string open_message();
  std::string close_message(const char* status);
  std::string call_events(const ToolCall& call);
  Json part() const;
  Json item_id(const char* prefix) const;
  // Sets status and usage of the finished response and stores it.
  void complete(const AnswerEnd& end, const Usage& usage);

  Json response_;
  const std::string id_, owner_;
  const std::vector<std::string>& tokens_;
  const bool logprobs_;
  Json input_;
  std::shared_ptr<ResponseStore> store_;
  int64_t sequence_ = 0;
  bool in_message_ = false;  // the last output item is an open message
  std::string text_;         // of the open message
  Json text_logprobs_ = Json::array();
  AnswerEnd end_;
};

}  // namespace makar
