// One request in the engine: its prompts, its answers as they are decoded, and how they are sent to the
// client.
#pragma once
#include "serve/active_model.h"
#include "serve/api/tool_calls.h"
#include "serve/gate.h"
#include "serve/logged_reply.h"

namespace makar {

class Answering : public std::enable_shared_from_this<Answering> {
 public:
  // Runs a function on another thread.
  using Elsewhere = std::function<void(std::function<void()>)>;
  // Submits one task per prompt. Non-streamed answers are serialized by `elsewhere`, off the engine thread.
  static void start(Ask ask, std::vector<std::vector<int64_t>> prompts, ModelLease model,
                    std::shared_ptr<LoggedReply> reply, Gate::Ticket ticket, std::chrono::seconds time,
                    Elsewhere elsewhere);

 private:
  class PromptTask;
  struct Line {  // one answer
    Line(std::set<std::string> names, bool parallel) : reader(std::move(names), parallel) {}
    ToolCallReader reader;
    WholeAnswer whole;
    std::vector<Written> pending;  // tokens not yet reported
    // With log-probabilities: decodes the reported tokens to compute their text offsets.
    std::optional<StreamDecoder> decoder;
    size_t text_bytes = 0, token_bytes = 0, characters = 0;
    int64_t counted = 0;  // tokens already added to the metrics
  };

  Answering(Ask ask, ModelLease model, std::shared_ptr<LoggedReply> reply,
               Gate::Ticket ticket);

  // Called on the engine thread.
  void echo(size_t prompt, const std::vector<Written>& tokens);
  void token(size_t line, const Written& token);
  void text(size_t line, const std::string& text);
  void finished(size_t prompt, WriteResult result);
  void scored(size_t prompt);
  void failed(const Error& error);
  // Fails the request and returns false if a model file was truncated.
  bool files_intact();

  void tell(Line& line, size_t index, AnswerPiece piece);
  void report_covered(Line& line, AnswerPiece& piece);
  void prompt_done();
  void emit(std::string bytes);

  Gate::Ticket ticket_;  // destroyed last: the gate slot is freed after the model lease
  const ModelLease lease_;
  const ServedModel& model_;
  EngineLoop& loop_;
  Ask ask_;
  std::shared_ptr<LoggedReply> reply_;
  Elsewhere elsewhere_;
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::vector<int64_t>> prompts_;
  std::vector<Line> lines_;
  size_t left_ = 0;
  Usage usage_;
  bool over_ = false;
};

}  // namespace makar
