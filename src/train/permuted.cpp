#include "train/permuted.h"

#include <algorithm>

#include "ops/shape.h"

namespace makar {

std::vector<int64_t> permuted_targets(int64_t length, int64_t count, Draws& draws) {
  std::vector<char> is_target(static_cast<size_t>(length), 0);
  std::vector<int64_t> positions;
  count = std::min(count, length);
  while (static_cast<int64_t>(positions.size()) < count) {
    auto at = static_cast<int64_t>(draws.below(static_cast<uint64_t>(length)));
    auto span = static_cast<int64_t>(1 + draws.below(5));
    while (is_target[static_cast<size_t>(at)]) at = (at + 1) % length;
    for (; span > 0 && at < length && !is_target[static_cast<size_t>(at)] &&
           static_cast<int64_t>(positions.size()) < count;
         --span, ++at)
      is_target[static_cast<size_t>(at)] = 1, positions.push_back(at);
  }
  for (size_t i = positions.size(); i > 1; --i) std::swap(positions[i - 1], positions[draws.below(i)]);
  return positions;
}

void add_permuted(Permuted& out, const std::vector<int64_t>& ids, const std::vector<int64_t>& positions) {
  Batch& b = out.batch;
  const auto length = static_cast<int64_t>(ids.size()), count = static_cast<int64_t>(positions.size());
  const int64_t start = b.rows();
  b.add(ids);
  b.order.resize(static_cast<size_t>(start + length), 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = positions[static_cast<size_t>(i)];
    b.order[static_cast<size_t>(start + at)] = i + 1;
    out.rows.push_back(b.rows());
    out.targets.push_back(ids[static_cast<size_t>(at)]);
    b.feature_rows.push_back(b.rows());
    b.tokens.push_back(0), b.positions.push_back(at), b.order.push_back(i + 1);
  }
  b.sequences.back().length += count;
  b.sequences.back().unseen = count;
}

MicroBatch permuted_batch(Model& model, Permuted examples, float smoothing) {
  MicroBatch out;
  out.tokens = examples.batch.rows(), out.squared_lengths = squared_lengths(examples.batch);
  out.weight = static_cast<double>(examples.targets.size());
  out.loss = [&model, smoothing, e = std::move(examples)](ForwardContext& f) -> Result<Tensor> {
    Inputs inputs;
    inputs.source = e.batch;
    inputs.source.features = model.mask_rows(f.ops, static_cast<int64_t>(e.rows.size()));
    const Tensor hidden = model.hidden(f, inputs);
    return model.lm_loss(f.ops, ops::gather_rows(f.ops, hidden, e.rows), e.targets,
                         f.ops.tape ? smoothing : 0.0f);
  };
  return out;
}

}  // namespace makar
