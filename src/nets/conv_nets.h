// Convolutional networks for images (Radford et al., 2016): each layer of the discriminator halves the size
// of an image, each layer of the generator doubles it. Activations are matrices with a row of channels per
// pixel.
#pragma once
#include "nets/mlp.h"

namespace makar {

struct ConvSpec {
  int64_t height = 0, width = 0;  // of the images
  std::vector<int64_t> channels;  // per layer; each layer halves (generator: doubles) height and width
  int64_t code = 0;               // generator: width of the code
  float dropout = 0;              // discriminator
};
// Height and width must be divisible by 2^layers.
Status check(const ConvSpec& spec, const std::string& place);
Json to_json(const ConvSpec& spec);
Result<ConvSpec> conv_from_json(const Json& json, const std::string& place);

// Codes to images: a linear layer, then transposed convolutions with batch norm and rectifiers.
class ConvGenerator {
 public:
  ConvGenerator(ParameterSet& set, const std::string& name, ConvSpec spec);
  // x [rows, code] -> [rows, height * width]; no activation at the end.
  Tensor operator()(Context& ctx, const Tensor& x);

 private:
  ConvSpec spec_;
  Linear first_;
  std::vector<Linear> up_;
  std::vector<BatchNorm> norms_;
};

// Images to one number: convolutions with leaky rectifiers and dropout, then a linear layer.
class ConvDiscriminator {
 public:
  ConvDiscriminator(ParameterSet& set, const std::string& name, ConvSpec spec);
  // x [rows, height * width] -> [rows, 1]
  Tensor operator()(Context& ctx, const Tensor& x);

 private:
  ConvSpec spec_;
  std::vector<Linear> down_;
  Linear last_;
};

}  // namespace makar
