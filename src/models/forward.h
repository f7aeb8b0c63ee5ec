// A model on plain tensors of a file or another framework: padded [batch, time] in, padded out.
#pragma once
#include <map>
#include <string>

#include "models/load.h"

namespace makar {

struct ForwardOptions {
  ThreadPool& pool;
  bool attentions = false;
};

// input_ids, attention_mask, token_type_ids, decoder_input_ids, decoder_attention_mask or pixel_values, as
// transformers names them, made into ragged batches. `place` names the source in errors.
// Padding is left out; a question-answering head keeps padding at the end as unseen rows, because
// transformers counts such places in its softmax over places.
Result<Inputs> make_inputs(const ModelSpec& spec, const std::map<std::string, Tensor>& in,
                           const std::string& place);

// Rows of a ragged batch back into [batch, time, ...]; padded places are zero.
Tensor pad_rows(const Tensor& rows, const Batch& batch, int64_t time);

// Every output under transformers' names; inputs are as in make_inputs.
Result<std::map<std::string, Tensor>> forward_tensors(const Model& model,
                                                      const std::map<std::string, Tensor>& in,
                                                      const ForwardOptions& options,
                                                      const std::string& place);

}  // namespace makar
