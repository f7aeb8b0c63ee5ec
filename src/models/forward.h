// Runs a model on padded [batch, time] tensors of a file or another framework; outputs are padded too.
#pragma once
#include <map>
#include <string>

#include "models/load.h"

namespace makar {

struct ForwardOptions {
  Device& device;
  bool attentions = false;
};

// Turns input_ids, attention_mask, token_type_ids, decoder_input_ids, decoder_attention_mask or pixel_values
// (the names of transformers) into ragged batches. `place` names the source in errors. Padding is dropped,
// except padding at the end with a question-answering head or XLNet's sequence classifier: transformers uses
// these positions, so they stay as masked rows.
Result<Inputs> make_inputs(const ModelSpec& spec, const std::map<std::string, Tensor>& in,
                           const std::string& place);

// Turns the rows of a ragged batch into [batch, time, ...]; padded positions are zero.
Tensor pad_rows(const Tensor& rows, const Batch& batch, int64_t time);

// All outputs under transformers' names; inputs as in make_inputs.
Result<std::map<std::string, Tensor>> forward_tensors(const Model& model,
                                                      const std::map<std::string, Tensor>& in,
                                                      const ForwardOptions& options,
                                                      const std::string& place);

}  // namespace makar
