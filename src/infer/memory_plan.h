// Plans memory within a budget: the resident size of the whole process, including mapped files. The memory of
// weights, steps and cache is computed from shapes before it is allocated; the rest of the process is
// measured.
#pragma once
#include "infer/engine.h"

namespace makar {

struct MemoryBudget {
  int64_t bytes = 0;  // 0: no limit
  CacheTypes cache;   // dtypes of the KV cache
};

// Weights are packed one by one, largest first; while one is packed, its file bytes are resident too. Weights
// that were copied out of the file are freed afterwards.
struct WeightMemory {
  int64_t packed = 0;  // of all linear layers
  int64_t freed = 0;   // copies freed after packing
  int64_t tables = 0;  // embeddings, read from the mapped file
  int64_t peak = 0;    // peak while packing
};
WeightMemory weight_memory(Model& model);

// Upper bound for the activations, scratch memory and logits of a step with `rows` rows.
int64_t step_bytes(const ModelSpec& spec, int64_t rows);

// Called before packing: checks that the weights, the smallest step and one page fit. The error reports the
// figures and the smallest budget that works.
Status admit_model(Model& model, const std::string& name, const MemoryBudget& budget);

// Called when all models are loaded: sets the step rows and pages that fit the rest of the budget. Without a
// budget, pages kept for later prompts take at most an eighth of the device's memory.
// `draft_page_bytes`: bytes per page of a second cache for the same tokens (a draft model's).
Result<EngineOptions> fit_engine(const Model& model, const MemoryBudget& budget, EngineOptions options,
                                 int64_t draft_page_bytes = 0);

}  // namespace makar
