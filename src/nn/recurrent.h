// Recurrent layers on ragged batches, with PyTorch's formulas: RNN (tanh), LSTM, GRU, in one or both
// directions. In a decoder, the first state comes from the encoder.
#pragma once
#include <string>
#include <vector>

#include "nn/source_attention.h"

namespace makar {

// State carried from step to step; c only for LSTM.
struct CellState {
  Tensor h, c;  // [sequences, hidden]
};

// One step. `from_input` is W_ih x + b_ih and `from_state` W_hh h + b_hh, [sequences, gates * hidden]. Gates
// are in PyTorch's order: LSTM input, forget, cell, output; GRU reset, update, new.
CellState cell_step(Context& ctx, CellKind kind, const Tensor& from_input, const Tensor& from_state,
                    const CellState& state);

class RecurrentLayer {
 public:
  RecurrentLayer() = default;
  // Declares NAME.forward.ih, NAME.forward.hh (and NAME.backward.*); with an encoder NAME.bridge_h and
  // bridge_c.
  RecurrentLayer(ParameterSet& set, const std::string& name, int64_t width, const BlockSpec& spec);

  // x [N, width] -> [N, directions * hidden]. With a cache, sequences continue after their cached tokens.
  Tensor operator()(ForwardContext& f, const Tensor& x, const AttentionInputs& in, int64_t layer) const;
  std::vector<Linear*> linears();

 private:
  struct Direction {
    Linear ih, hh;
    Linear context;  // additive attention: the part of the input that comes from the source
  };
  struct Outputs {
    Tensor h, c;  // [N, hidden]
  };
  // `first` [sequences, states * hidden]: the state before the first row; undefined for zeros.
  Outputs run(ForwardContext& f, const Direction& d, const Tensor& x, const AttentionInputs& in, bool reverse,
              const Tensor& first, const Source* source) const;
  Tensor first_state(ForwardContext& f, const AttentionInputs& in, int64_t layer, const Source* source) const;
  // tanh of a projection of the mean encoder output (Sennrich et al., 2017). [sequences, states * hidden]
  Tensor bridge_state(Context& ctx, const Source& source) const;
  int64_t states() const { return spec_.cell == CellKind::kLstm ? 2 : 1; }

  RecurrentSpec spec_;
  AttentionSpec cache_spec_;  // how the cache holds the states
  bool has_source_ = false;
  int64_t width_ = 0;
  std::vector<Direction> directions_;
  Linear bridge_h_, bridge_c_;
  SourceAttention attention_;
};

}  // namespace makar
