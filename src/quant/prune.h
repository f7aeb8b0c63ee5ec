// Pruning of single weights: zeros in the matrices of a model's blocks, chosen by magnitude, by
// their effect on sample text (Wanda), or with compensation by the other weights (SparseGPT).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/device.h"
#include "models/load.h"

namespace makar {

enum class PruneMethod {
  kMagnitude,  // |w|, the smallest of each matrix
  kWanda,      // |w| * |x|, the smallest of each row (Sun et al., 2023)
  kSparseGpt,  // the smallest increase of the output error; the other weights of the row compensate it
               // (Frantar & Alistarh, 2023)
};
std::optional<PruneMethod> prune_method_named(const std::string& name);
std::vector<std::string> prune_method_names();

// A share of the weights, or `zeros` of every `group` consecutive weights of a row (2:4).
struct SparsityPattern {
  double share = 0.5;
  int64_t zeros = 0, group = 0;  // group 0: by share
};
// "2:4": 2 of 4 weights are zero.
Result<SparsityPattern> parse_pattern(const std::string& text, const std::string& place);

// Zeroes weights of w [rows, columns], f32 on the host, by their scores: |w| times scale[column]. `rowwise`:
// the share is taken of every row, else of the matrix.
void zero_smallest(ThreadPool& pool, Tensor& w, const std::vector<float>& scale,
                   const SparsityPattern& pattern, bool rowwise);
// SparseGPT on one matrix; `h` is x^T x of its inputs [columns, columns]. Columns are processed in order;
// each zero is compensated by the columns after it, which minimises the error of the output.
void prune_compensated(ThreadPool& pool, Tensor& w, const Tensor& h, const SparsityPattern& pattern);

struct PruneOptions {
  PruneMethod method = PruneMethod::kMagnitude;
  SparsityPattern pattern;
  std::vector<int64_t> ids;  // sample text; not for kMagnitude
  int64_t window = 512;
  std::function<void(int64_t done, int64_t total)> progress = [](int64_t, int64_t) {};  // layers
};
// Prunes all matrices of the blocks of a model whose weights are f32 copies (LoadOptions::trainable).
// kSparseGpt processes layers in order: the inputs of a layer come from the pruned layers before it.
Status prune_model(const LoadedModel& model, const PruneOptions& options, Device& device, ThreadPool& pool);

// The share of zeros in the matrices of the blocks.
double sparsity_of(const Model& model);

}  // namespace makar
