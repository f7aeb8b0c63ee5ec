// Decoding steps that stay on the device: the next token is chosen there and is the input of the next step,
// which can start before the host has read it. A step is recorded once per number of rows and of pages and
// then run again (a CUDA graph); what changes between steps is in device memory. Same bits as a forward pass
// of the engine.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "models/model.h"

namespace makar {

class DecodeSteps {
 public:
  static constexpr int64_t kMaxRows = 64;

  DecodeSteps(const Model& model, Device& device, KvCache& cache)
      : model_(model), device_(device), cache_(cache) {}

  // Whether the model has such steps. Its weights must stay where they are as long as an object of this class
  // is used.
  static bool supports(const Model& model);

  // A sequence in the cache, with pages for its next token, which is at `position`.
  struct Row {
    size_t slot = 0;
    int64_t token = 0, position = 0;
    kernels::RowSampler sampler{};  // temperature 0: the token with the largest logit
  };
  // Sets the rows of the next step. All started steps must have been taken.
  void set_rows(const std::vector<Row>& rows);
  // Starts a step: of the rows that were set, or one token after the last started step. The caches of the
  // rows must have a page for it.
  void start();
  // Waits for the oldest started step; its tokens by row, -1 where the logits are not finite, or only the
  // host can draw.
  std::vector<int64_t> take();
  // Pages that a sequence may have until rows are set again.
  int64_t max_pages() const { return current_ ? current_->rows.max_pages : 0; }
  int64_t started() const { return static_cast<int64_t>(started_.size()); }

 private:
  // The buffers and the recording of one shape.
  struct StepShape {
    DeviceRows rows;
    Tensor chosen, samplers;  // samplers: undefined if all rows choose the largest
    Batch batch;
    bool has_run = false;
    std::unique_ptr<RecordedWork> recorded;  // from the second step on
    int64_t last_use = 0;
  };
  StepShape& shape_for(int64_t rows, int64_t pages, bool samples);
  void upload_pages();
  void forward(StepShape& shape);

  const Model& model_;
  Device& device_;
  KvCache& cache_;
  // By rows, pages per row, and whether rows are sampled.
  std::map<std::tuple<int64_t, int64_t, bool>, std::unique_ptr<StepShape>> shapes_;
  StepShape* current_ = nullptr;
  std::vector<Row> rows_;
  std::vector<int64_t> pages_;  // of `current_`, as last uploaded
  std::deque<std::unique_ptr<PendingCopy>> started_;
  int64_t uses_ = 0;
};

}  // namespace makar
