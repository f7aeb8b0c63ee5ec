// The images of a request: rows of the prompt, or the input of an encoder-decoder.
#pragma once
#include <vector>

#include "models/model.h"

namespace makar {

struct ImageInputs {
  // `pixels`: f32 [images, channels, height, width], as the model takes them.
  ImageInputs(const ModelSpec& spec, Tensor pixels);

  // Models whose decoder reads images: repeats each image token of a prompt once per row of the image, and
  // stores their positions in `rows`. A prompt that already has all of them is not changed.
  Status expand_tokens(const ModelSpec& spec, std::vector<int64_t>& prompt);
  // The tokens with image tokens replaced by hashes of the images: equal hashes mean equal rows.
  std::vector<int64_t> keyed(std::span<const int64_t> tokens) const;
  // Computes the rows once, with the request's adapter (-1: none); the engine calls it.
  void compute(const Model& model, Device& device, int32_t adapter);

  Tensor pixels;
  std::vector<int64_t> rows;  // indices in the prompt, ascending; empty for encoder-decoders
  Tensor features;            // [rows, width], after compute()

 private:
  std::vector<int64_t> keys_;  // one per row of all images
};

}  // namespace makar
