// Memory within a budget: the resident size of the whole process, mapped files included. What weights, a step
// and the cache take is known from shapes before it is taken; what else the process holds is measured.
#pragma once
#include "infer/engine.h"

namespace makar {

struct MemoryBudget {
  int64_t bytes = 0;  // 0: no bound
  CacheTypes cache;   // of the engine to come
};

// Packing takes the weights one by one, the largest first, each beside its bytes in the file. Weights that
// were copied out of the file are let go again.
struct WeightNeed {
  int64_t packed = 0;  // of all linear layers
  int64_t freed = 0;   // copies
  int64_t tables = 0;  // embeddings, which are read as they lie in the file
  int64_t peak = 0;    // the most while packing
};
WeightNeed weight_need(Model& model);

// Activations, scratch memory and logits of a step of so many rows; an upper bound.
int64_t step_bytes(const ModelSpec& spec, int64_t rows);

// Before the weights are packed: whether they, the smallest step and one page fit. The error has the figures
// and the smallest budget that works.
Status admit_model(Model& model, const std::string& name, const MemoryBudget& budget);

// When all models are loaded: the rows of a step and the pages that the rest of the budget holds. `beside`:
// bytes that a page of another cache takes for the same tokens (a draft model's).
Result<EngineOptions> fit_engine(const Model& model, const MemoryBudget& budget, EngineOptions options,
                                 int64_t beside = 0);

}  // namespace makar
