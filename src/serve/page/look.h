// Looking inside: what a model computes for a text, as numbers that a page can draw.
#pragma once
#include <functional>

#include "serve/engine_loop.h"
#include "serve/prepare.h"

namespace makar {

struct LookAsk {
  std::optional<ChatInput> chat;  // or
  std::string prompt;
  std::string completion;  // follows the prompt; an encoder-decoder writes it
  bool special = false;    // control tokens may be spelled in the texts
  bool next = false, probabilities = false, attention = false, routing = false, positions = false;
  int64_t top = 0;                      // logits of the next token
  std::vector<int64_t> layers;          // of attention; empty: all
  std::string of;                       // "encoder", "decoder" or "cross"; empty: what the model has
  std::vector<int64_t> source, target;  // ids, filled by prepare_look
};

// Bounds of one look.
constexpr int64_t kLookTokens = 512, kLookValues = int64_t{4} << 20, kLookTop = 4096;

Result<LookAsk> read_look(const Json& body);
// The ids, and whether all of it is within bounds for this model.
Status prepare_look(LookAsk& ask, const ServedModel& model);
// Everything that is asked for. Runs on the pool: on the engine's thread.
Result<Json> look_inside(const LookAsk& ask, const ServedModel& model, ThreadPool& pool,
                         int32_t adapter = -1);
// How the stack tells positions apart; part of look_inside().
Json look_positions(Context& ctx, const Model& model, const StackSpec& stack, int64_t tokens);

// Numbers within [low, high] as bytes in base64: pictures do not need more.
Json byte_matrix(const float* values, int64_t rows, int64_t columns);

class LookTask : public EngineTask {
 public:
  using Told = std::function<void(Result<Json>)>;  // on the engine's thread
  LookTask(LookAsk ask, const ServedModel& model, Told told)
      : ask_(std::move(ask)), model_(model), told_(std::move(told)) {}

  Status begin(Engine& engine) override;
  bool done() override { return true; }
  void finish() override { told_(std::move(found_)); }
  void fail(const Error& why) override { told_(why); }
  void release() override {}

 private:
  LookAsk ask_;
  const ServedModel& model_;
  Told told_;
  Json found_;
};

}  // namespace makar
