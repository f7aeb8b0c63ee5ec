#include "nn/embedding.h"

#include "ops/conv.h"
#include "ops/embedding.h"
#include "ops/shape.h"

namespace makar {

Embedding::Embedding(ParameterSet& set, const std::string& name, int64_t width, const EmbeddingSpec& spec,
                     const NormSpec& norm, Parameter* tokens)
    : spec_(spec), tokens_(tokens) {
  if (spec.patches) {
    const PatchSpec& p = *spec.patches;
    patch_weight_ = set.add(name + ".patch.weight", {width, p.channels, p.patch, p.patch});
    if (p.bias) patch_bias_ = set.add(name + ".patch.bias", {width});
    cls_ = set.add(name + ".cls", {1, 1, width});
    if (p.distillation_token) distillation_ = set.add(name + ".distillation", {1, 1, width});
    const int64_t rows = (p.image_height / p.patch) * (p.image_width / p.patch) + (distillation_ ? 2 : 1);
    positions_ = set.add(name + ".positions", {1, rows, width});
    if (spec.norm) norm_ = Norm(set, name + ".norm", width, norm);
    return;
  }
  if (!tokens_) tokens_ = set.add(name + ".tokens.weight", {spec.vocab, spec.width});
  if (spec.types > 0) types_ = set.add(name + ".types.weight", {spec.types, spec.width});
  if (spec.positions == PositionKind::kLearned)
    positions_ =
        set.add(name + ".positions.weight", {spec.max_positions, spec.project_early ? width : spec.width});
  if (spec.positions == PositionKind::kSinusoidal || spec.positions == PositionKind::kFairseq) {
    positions_ = set.add(name + ".positions.weight", {spec.max_positions, width});
    positions_->value =
        ops::sinusoidal_positions(spec.max_positions, width, spec.positions == PositionKind::kFairseq);
    positions_->buffer = positions_->optional = true;
  }
  if (spec.norm) norm_ = Norm(set, name + ".norm", spec.width, norm);
  if (spec.project) project_ = Linear(set, name + ".project", spec.width, width, spec.project_bias);
}

Tensor Embedding::operator()(ForwardContext& f, const Batch& batch) const {
  Context& ctx = f.ops;
  if (spec_.patches) {
    const Tensor rows = patches(ctx, batch.pixels);
    return ops::dropout(ctx, norm_.defined() ? norm_(ctx, rows) : rows, spec_.dropout);
  }
  const DeviceRows* rows = batch.on_device;
  Tensor x = rows ? ops::embedding(ctx, tokens_->value, rows->tokens)
                  : ops::embedding(ctx, tokens_->value, batch.tokens, spec_.padding);
  if (spec_.scale != 1.0f) x = ops::scale(ctx, x, spec_.scale);
  if (batch.features.defined()) {
    std::vector<int64_t> from(batch.tokens.size());
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int64_t>(i);
    for (size_t i = 0; i < batch.feature_rows.size(); ++i)
      from[static_cast<size_t>(batch.feature_rows[i])] = x.dim(0) + static_cast<int64_t>(i);
    x = ops::gather_rows(ctx, ops::concat(ctx, {x, batch.features}, 0), from);
  }
  // Types before positions, as BERT adds them.
  if (types_) {
    const std::vector<int64_t> zeros(batch.tokens.size(), 0);
    x = ops::add(ctx, x, ops::embedding(ctx, types_->value, batch.types.empty() ? zeros : batch.types));
  }
  const bool early = spec_.project_early;
  if (project_.defined() && early) x = project_(ctx, x);
  if (spec_.positions != PositionKind::kNone && rows) {
    x = ops::add(ctx, x, ops::embedding(ctx, positions_->value, rows->positions));
  } else if (spec_.positions != PositionKind::kNone) {
    std::vector<int64_t> positions = batch.positions;
    for (int64_t& p : positions) p += spec_.position_offset;
    x = ops::add(ctx, x, ops::embedding(ctx, positions_->value, positions));
  }
  if (norm_.defined()) x = norm_(ctx, x);
  x = ops::dropout(ctx, x, spec_.dropout);
  if (spec_.doubled) x = ops::concat(ctx, {x, x}, -1);
  return project_.defined() && !early ? project_(ctx, x) : x;
}

// [images, channels, h, w] -> the rows of each image: class token, distillation token, patches; positions
// added.
Tensor Embedding::patches(Context& ctx, const Tensor& pixels) const {
  const int64_t images = pixels.dim(0), width = cls_->shape[2];
  const Tensor cells = ops::conv2d_rows(ctx, pixels.to(ctx.device.memory()), patch_weight_->value,
                                        patch_bias_ ? patch_bias_->value : Tensor(), spec_.patches->patch);
  const int64_t per_image = cells.dim(0) / images, rows = positions_->shape[1], extra = rows - per_image;
  std::vector<Tensor> parts = {ops::reshape(ctx, cls_->value, {1, width})};
  if (distillation_) parts.push_back(ops::reshape(ctx, distillation_->value, {1, width}));
  parts.push_back(cells);
  const Tensor distinct_rows = ops::concat(ctx, parts, 0);
  std::vector<int64_t> index;
  for (int64_t i = 0; i < images; ++i) {
    for (int64_t e = 0; e < extra; ++e) index.push_back(e);
    for (int64_t c = 0; c < per_image; ++c) index.push_back(extra + i * per_image + c);
  }
  const Tensor x = ops::reshape(ctx, ops::gather_rows(ctx, distinct_rows, index), {images, rows, width});
  const Tensor with_positions = ops::add(ctx, x, ops::reshape(ctx, positions_->value, {rows, width}));
  return ops::reshape(ctx, with_positions, {images * rows, width});
}

}  // namespace makar
