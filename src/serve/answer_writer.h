// One request in the engine: its prompts, its answers as they are decoded, and how they are sent to the
// client.
#pragma once
#include "serve/active_model.h"
#include "serve/gate.h"
#include "serve/logged_reply.h"

namespace makar {

class AnswerWriter : public std::enable_shared_from_this<AnswerWriter> {
 public:
  // Runs a function on another thread.
  using RunOnWorker = std::function<void(std::function<void()>)>;
  // Submits one task per prompt. Non-streamed answers are serialized by `run_on_worker`, off the engine
  // thread.
  static void start(GenerationRequest request, std::vector<std::vector<int64_t>> prompts, ModelLease model,
                    std::shared_ptr<LoggedReply> reply, Gate::Ticket ticket, std::chrono::seconds time_limit,
                    RunOnWorker run_on_worker);

 private:
  class PromptTask;
  struct AnswerState {  // one answer
    AnswerState(std::set<std::string> names, bool parallel, const OutputFilter* output)
        : reader(std::move(names), parallel), filter(output) {}
    ToolCallReader reader;
    FilteredText filter;
    CompleteAnswer complete;
    std::vector<GeneratedToken> pending;  // tokens not yet reported
    // With log-probabilities: decodes the reported tokens to compute their text offsets.
    std::optional<StreamDecoder> decoder;
    size_t text_bytes = 0;                   // bytes of text sent
    size_t token_bytes = 0, characters = 0;  // bytes and characters of the reported tokens
    int64_t counted = 0;                     // tokens already added to the metrics
    bool cut = false;                        // ended at the length limit
  };

  AnswerWriter(GenerationRequest request, ModelLease model, std::shared_ptr<LoggedReply> reply,
               Gate::Ticket ticket);

  // Called on the engine thread.
  void echo(size_t prompt, const std::vector<GeneratedToken>& tokens);
  void token(size_t index, const GeneratedToken& token);
  void text(size_t index, const std::string& text);
  void finished(size_t prompt, TextGenerationResult result);
  void scored(size_t prompt);
  void failed(const Error& error);
  // Fails the request and returns false if a model file was truncated.
  bool files_intact();

  // Streams the piece, or appends it to the whole answer.
  void deliver(AnswerState& state, size_t index, AnswerPiece piece);
  void report_covered(AnswerState& state, AnswerPiece& piece);
  void prompt_done();
  // Headers that mark a response as generated text.
  HttpHeaders disclosure() const;
  void emit(std::string bytes);

  Gate::Ticket ticket_;  // destroyed last: the gate slot is freed after the model lease
  const ModelLease lease_;
  const ServedModel& model_;
  EngineLoop& loop_;
  GenerationRequest request_;
  std::shared_ptr<LoggedReply> reply_;
  RunOnWorker run_on_worker_;
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::vector<int64_t>> prompts_;
  std::vector<AnswerState> answers_;
  size_t unfinished_prompts_ = 0;
  Usage usage_;
  bool over_ = false;  // the response is complete or failed
};

}  // namespace makar
