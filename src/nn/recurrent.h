// Recurrent layers as PyTorch computes and names them: RNN (tanh), LSTM, GRU; several layers, both
// directions.
#pragma once
#include <string>
#include <vector>

#include "nn/parameter.h"
#include "ops/context.h"

namespace makar {

enum class CellKind { kRnn, kLstm, kGru };

struct RecurrentOptions {
  CellKind kind = CellKind::kLstm;
  int64_t input = 0, hidden = 0, layers = 1;
  bool bidirectional = false;
  float dropout = 0.0f;  // between layers, in training
};

// State carried from step to step; c only for LSTM.
struct CellState {
  Tensor h, c;  // [batch, hidden]
};

// One step. `from_input` is W_ih x + b_ih, [batch, gates * hidden]; the other weights act on the state. Gates
// are in PyTorch's order: LSTM input, forget, cell, output; GRU reset, update, new.
CellState cell_step(Context& ctx, CellKind kind, const Tensor& from_input, const CellState& state,
                    const Tensor& w_hh, const Tensor& b_hh);

class Recurrent {
 public:
  // Declares weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ... (and *_reverse) below `prefix`.
  Recurrent(ParameterSet& parameters, const std::string& prefix, const RecurrentOptions& options);

  struct Output {
    Tensor sequence;              // [batch, time, directions * hidden]
    std::vector<CellState> last;  // per layer and direction; the directions of a layer are adjacent
  };
  // x [batch, time, input]; `first`: `last` of an earlier call, or empty for zeros.
  Output forward(Context& ctx, const Tensor& x, const std::vector<CellState>& first = {}) const;

 private:
  struct Direction {
    Parameter *w_ih, *w_hh, *b_ih, *b_hh;
  };
  // x [time * batch, width], time-major -> [time * batch, hidden].
  Tensor run(Context& ctx, const Direction& d, const Tensor& x, int64_t time, bool reverse,
             CellState& state) const;

  RecurrentOptions options_;
  std::vector<Direction> directions_;
};

}  // namespace makar
