// One request on its way through the engine: its prompts, its answers as they are written, and their telling.
#pragma once
#include "serve/active_model.h"
#include "serve/api/tool_calls.h"
#include "serve/gate.h"
#include "serve/logged_reply.h"

namespace makar {

class Answering : public std::enable_shared_from_this<Answering> {
 public:
  // Submits a task for each prompt.
  static void start(Ask ask, std::vector<std::vector<int64_t>> prompts, ModelLease model,
                    std::shared_ptr<LoggedReply> reply, Gate::Ticket ticket, std::chrono::seconds time);

 private:
  class PromptTask;
  struct Line {  // one answer
    Line(std::set<std::string> names, bool parallel) : reader(std::move(names), parallel) {}
    ToolCallReader reader;
    WholeAnswer whole;
    std::vector<Written> pending;  // tokens that are not told yet
    size_t text_bytes = 0, token_bytes = 0, characters = 0;
    int64_t counted = 0;  // tokens, as they came
  };

  Answering(Ask ask, ModelLease model, std::shared_ptr<LoggedReply> reply, Gate::Ticket ticket);

  // On the engine's thread.
  void echo(size_t prompt, const std::vector<Written>& tokens);
  void token(size_t line, const Written& token);
  void text(size_t line, const std::string& text);
  void finished(size_t prompt, WriteResult result);
  void scored(size_t prompt);
  void failed(const Error& error);

  void tell(Line& line, size_t index, AnswerPiece piece);
  std::vector<Written> covered(Line& line);
  void prompt_done();
  void emit(std::string bytes);

  const ModelLease lease_;
  const ServedModel& model_;
  EngineLoop& loop_;
  Ask ask_;
  std::shared_ptr<LoggedReply> reply_;
  Gate::Ticket ticket_;
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::vector<int64_t>> prompts_;
  std::vector<Line> lines_;
  size_t left_ = 0;
  Usage usage_;
  bool over_ = false;
};

}  // namespace makar
