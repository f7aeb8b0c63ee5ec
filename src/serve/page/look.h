// Inspection of a model: its intermediate results for a text, as numbers that the page draws.
#pragma once
#include <atomic>
#include <functional>

#include "kernels/cpu_device.h"
#include "serve/engine_loop.h"
#include "serve/prepare.h"
#include "serve/workers.h"

namespace makar {

struct LookRequest {
  std::optional<ChatInput> chat;  // a conversation; otherwise `prompt`
  std::string prompt;
  std::string completion;  // text after the prompt; for an encoder-decoder, the decoder's text
  bool special = false;    // parse control tokens in the texts
  bool next = false, probabilities = false, attention = false, routing = false, positions = false;
  int64_t top = 0;                      // number of next-token logits to list
  std::vector<int64_t> layers;          // attention layers; empty: all
  std::string of;                       // "encoder", "decoder" or "cross"; empty: model default
  std::vector<int64_t> source, target;  // ids, filled by prepare_look
};

// Limits per request.
constexpr int64_t kMaxLookTokens = 512, kMaxLookValues = int64_t{4} << 20, kMaxLookTop = 4096;

Result<LookRequest> read_look(const Json& body);
// Tokenizes the texts and checks the limits for this model.
Status prepare_look(LookRequest& request, const ServedModel& model);
// Computes everything requested. `work` is checked between matrix products; null: no limit.
Result<Json> look_inside(const LookRequest& request, const ServedModel& model, Device& device,
                         int32_t adapter = -1, WorkBudget* work = nullptr);
// The positional encoding of a stack; part of look_inside().
Json look_positions(Context& ctx, const Model& model, const StackSpec& stack, int64_t tokens);

// Values quantized to bytes within [low, high], in base64; enough for images.
Json byte_matrix(const float* values, int64_t rows, int64_t columns);

// Runs looks one at a time on a separate thread. On the CPU they have a small pool at a lower priority than
// the engine: a look is one forward pass that records attention and cannot be split into steps, so it must
// not delay streams. On another device a look takes one turn of the engines.
class LookRunner {
 public:
  using Done = std::function<void(Result<Json>)>;  // called on the runner's thread
  LookRunner() : worker_(0, 1) {}
  // Uses the caller and cancel flag of `work`; sets `work.run`. The model and the loop of its engine (null:
  // on the CPU) must outlive the look. False: the queue is full, or the runner is stopped.
  bool post(WorkItem work, LookRequest request, const ServedModel& model, int32_t adapter,
            const EngineLoop* loop, Done done);
  void stop() { worker_.stop(); }

 private:
  static constexpr int kMaxWaiting = 128;  // gate slots that looks may occupy
  std::atomic<int> waiting_{0};
  std::unique_ptr<CpuDevice> device_;  // created on the runner's thread: its pool inherits the priority
  Workers worker_;                     // destroyed before the device
};

}  // namespace makar
