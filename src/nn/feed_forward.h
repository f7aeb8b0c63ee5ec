// Feed-forward layers: plain, gated, and a mixture of experts with top-k routing (Shazeer et al.,
// 2017).
#pragma once
#include <string>
#include <vector>

#include "nn/batch.h"
#include "nn/linear.h"
#include "nn/spec.h"
#include "ops/experts.h"

namespace makar {

class FeedForward {
 public:
  FeedForward() = default;
  FeedForward(ParameterSet& set, const std::string& name, int64_t width, const FeedForwardSpec& spec);
  Tensor operator()(ForwardContext& f, const Tensor& x) const;

  struct Expert {
    Linear gate, up, down;
    Tensor run(Context& ctx, const Tensor& x, const FeedForwardSpec& spec) const;
  };
  // The layers of all experts that are packed together: those of gates, ups and downs. Empty if dense.
  std::vector<std::vector<Linear*>> expert_layers();
  int64_t expert_count() const { return spec_.experts; }  // 0 if dense
  // Whether rows can be routed without the host, outside of training.
  bool routes_on_device() const;
  std::vector<Expert> experts;  // one if dense
  Linear router;
  Expert shared;       // for all tokens, besides the routed ones
  Linear shared_gate;  // [1, width]

 private:
  ops::RoutingOptions routing() const;
  Tensor probabilities(Context& ctx, const Tensor& x) const;  // [rows, experts], in f32
  // The experts' part of the result, by two ways with the same bits: each expert's rows in turn, or all at
  // once and without the host.
  Tensor run_experts(ForwardContext& f, const Tensor& x) const;
  Tensor run_together(Context& ctx, const Tensor& x) const;
  FeedForwardSpec spec_;
  Parameter* correction_ = nullptr;  // [experts]: added to the probabilities to choose experts
};

// E * sum over experts of (fraction of tokens routed there) * (mean probability), over all layers together
// (Fedus et al., 2021). With a perfectly even router, the loss is experts_per_token.
Tensor load_balancing_loss(Context& ctx, const Record& record, int64_t experts);

}  // namespace makar
