#include "infer/model_drafter.h"

#include <algorithm>

namespace makar {

ModelDrafter::ModelDrafter(const Model& model, Device& device)
    : model_(model),
      device_(device),
      cache_(*model.spec().decoder, 0, 0, {}, device.memory()),
      slot_(cache_.add()) {}

std::vector<int64_t> ModelDrafter::draft(std::span<const int64_t> tokens, int64_t max) {
  const int64_t positions = model_.spec().max_positions;
  if (positions > 0) max = std::min(max, positions - static_cast<int64_t>(tokens.size()));
  if (max < 1 || tokens.empty()) return {};
  const auto mismatch =
      std::mismatch(cached_tokens_.begin(), cached_tokens_.end(), tokens.begin(), tokens.end()).first;
  const auto common =
      std::min<int64_t>(mismatch - cached_tokens_.begin(), static_cast<int64_t>(tokens.size()) - 1);
  int64_t past = cache_.truncate(slot_, common);
  cached_tokens_.assign(tokens.begin(), tokens.end());
  Context ctx{device_};
  ctx.activations = model_.activations();
  ForwardContext f{ctx, &cache_};
  std::vector<int64_t> drafts;
  while (true) {
    Batch batch;
    batch.add({cached_tokens_.begin() + past, cached_tokens_.end()}, past);
    batch.sequences[0].past = past, batch.sequences[0].slot = slot_;
    const Tensor hidden = model_.decode(f, batch, {}, nullptr);
    past = static_cast<int64_t>(cached_tokens_.size());
    const Tensor logits = model_.lm_logits(ctx, hidden.slice(hidden.dim(0) - 1, hidden.dim(0))).host();
    drafts.push_back(std::max_element(logits.span().begin(), logits.span().end()) - logits.span().begin());
    if (static_cast<int64_t>(drafts.size()) == max) return drafts;
    cached_tokens_.push_back(drafts.back());
  }
}

}  // namespace makar
