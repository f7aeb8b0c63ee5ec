// Attention of a recurrent decoder to its encoder: scores by dot product, a bilinear form, a small network
// (concat, additive) or the target state alone (location); global or local (Luong et al., 2015; Bahdanau et
// al., 2015).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "nn/cached_rows.h"

namespace makar {

// Collects the weights of one forward pass, row by row, for ForwardContext::record; does nothing without one.
class AlignmentRecord {
 public:
  explicit AlignmentRecord(ForwardContext& f)
      : record_(f.record && f.record->attention && !f.cache ? f.record : nullptr) {}
  void add(size_t sequence, const Tensor& weights);  // [rows, source rows]
  void finish();                                     // stores [1, rows, source rows] per sequence

 private:
  Record* record_;
  std::vector<std::vector<Tensor>> rows_;
};

class SourceAttention {
 public:
  SourceAttention() = default;
  SourceAttention(ParameterSet& set, const std::string& name, int64_t width, const BlockSpec& spec);

  // tanh(W [context; h]) for every row h of x [N, width].
  Tensor operator()(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;
  // Projects the source rows, once per forward pass.
  void prepare(Context& ctx, Source& source) const;
  // The contexts of one row per sequence; `active` are the sequences of the rows.
  Tensor step(Context& ctx, const Tensor& queries, const Source& source, std::span<const int64_t> active,
              AlignmentRecord& record) const;
  std::vector<Linear*> linears();

 private:
  // Weights of the rows of one sequence, the first at target position `past`. [rows, source rows]
  Tensor weights(Context& ctx, const Tensor& queries, const Tensor& source, const Tensor& keys,
                 int64_t past) const;
  Tensor scores(Context& ctx, const Tensor& queries, const Tensor& source, const Tensor& keys) const;
  Tensor local_weights(Context& ctx, const Tensor& queries, const Tensor& scores, int64_t past) const;

  AlignmentSpec spec_;
  AttentionSpec cache_spec_;
  int64_t width_ = 0;
  Linear query_, key_, score_, combine_, centre_, centre_score_;
};

}  // namespace makar
