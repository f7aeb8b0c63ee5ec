// What /v1/responses answers: one object, or its typed events in order.
#pragma once
#include "serve/api/openai_shape.h"
#include "serve/api/response_store.h"

namespace makar {

class ResponsesShape : public AnswerShape {
 public:
  // `head`: what the request says of itself, as the answer repeats it. Kept in `store` where there is one.
  ResponsesShape(const AskContext& context, Json head, bool logprobs, Json input,
                 std::shared_ptr<ResponseStore> store);
  Dialect dialect() const override { return Dialect::kOpenAi; }
  std::string whole(const std::vector<WholeAnswer>& answers, const Usage& usage) override;
  std::string begin(const Usage& usage) override;
  std::string piece(size_t answer, const AnswerPiece& piece) override;
  std::string end(size_t answer, const AnswerEnd& end) override;
  std::string done(const Usage& usage) override;
  std::string failed(const ApiError& error) override;

 private:
  std::string event(const char* type, Json data);
  std::string text_event(const char* type, Json data);
  std::string open_message();
  std::string close_message(const char* status);
  std::string tell_call(const ToolCall& call);
  Json part() const;
  Json item_id(const char* prefix) const;
  // The output is complete: status, usage, and into the store.
  void complete(const AnswerEnd& end, const Usage& usage);

  Json response_;
  const std::string id_, owner_;
  const std::vector<std::string>& tokens_;
  const bool logprobs_;
  Json input_;
  std::shared_ptr<ResponseStore> store_;
  int64_t sequence_ = 0;
  bool in_message_ = false;  // the last item of the output is a message that still grows
  std::string text_;         // of it
  Json text_logprobs_ = Json::array();
  AnswerEnd end_;
};

}  // namespace makar
