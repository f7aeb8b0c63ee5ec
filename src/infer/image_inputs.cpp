#include "infer/image_inputs.h"

#include <algorithm>
#include <charconv>

#include "base/sha256.h"
#include "ops/bf16.h"

namespace makar {

ImageInputs::ImageInputs(const ModelSpec& spec, Tensor image_pixels) : pixels(std::move(image_pixels)) {
  if (!spec.image_input) return;
  // Keys are negative, so they differ from all token ids. They come from the SHA-256 of the pixels, a quarter
  // of the digest per row, and the row's number.
  const int64_t count = pixels.dim(0), per_image = spec.image_tokens();
  const auto bytes = static_cast<int64_t>(pixels.bytes()) / count;
  for (int64_t i = 0; i < count; ++i) {
    Sha256 hash;
    hash.add({reinterpret_cast<const std::byte*>(pixels.f32()) + i * bytes, static_cast<size_t>(bytes)});
    const std::string digest = hash.hex();
    for (int64_t row = 0; row < per_image; ++row) {
      uint64_t word = 0;
      const char* from = digest.data() + row % 4 * 16;
      std::from_chars(from, from + 16, word, 16);
      keys_.push_back(-1 -
                      static_cast<int64_t>((word + static_cast<uint64_t>(row)) & ((uint64_t{1} << 62) - 1)));
    }
  }
}

Status ImageInputs::expand_tokens(const ModelSpec& spec, std::vector<int64_t>& prompt) {
  const int64_t token = spec.image_input->token, count = pixels.dim(0), per_image = spec.image_tokens();
  const int64_t token_count = std::count(prompt.begin(), prompt.end(), token);
  if (token_count != count && token_count != count * per_image)
    return error_at("prompt", "has {} image token{} (id {}), but {} image{} given", token_count,
                    token_count == 1 ? "" : "s", token, count, count == 1 ? " is" : "s are");
  std::vector<int64_t> out;
  rows.clear();
  const int64_t copies = token_count == count ? per_image : 1;
  for (const int64_t id : prompt)
    for (int64_t i = 0; i < (id == token ? copies : 1); ++i) {
      if (id == token) rows.push_back(static_cast<int64_t>(out.size()));
      out.push_back(id);
    }
  prompt = std::move(out);
  return Done{};
}

std::vector<int64_t> ImageInputs::keyed(std::span<const int64_t> tokens) const {
  std::vector<int64_t> out(tokens.begin(), tokens.end());
  for (size_t i = 0; i < rows.size() && rows[i] < static_cast<int64_t>(out.size()); ++i)
    out[static_cast<size_t>(rows[i])] = keys_[i];
  return out;
}

void ImageInputs::compute(const Model& model, Device& device, int32_t adapter) {
  if (features.defined() || rows.empty()) return;
  Context ctx{device};
  ctx.activations = model.activations();
  const Batch batch = pixel_batch(model.spec(), pixels);
  const std::vector<int32_t> adapters(static_cast<size_t>(batch.rows()), adapter);
  if (adapter >= 0) ctx.row_adapters = adapters;
  ForwardContext f{ctx};
  features = ops::cast_to_f32(ctx, model.image_rows(f, batch));
}

}  // namespace makar
