// A multi-layer perceptron: linear layers with an activation, batch norm and dropout between them.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "nets/batch_norm.h"
#include "nn/linear.h"

namespace makar {

// The activation of hidden units.
enum class HiddenActivation { kRelu, kLeakyRelu, kTanh, kSigmoid, kGelu, kSilu };
Result<HiddenActivation> parse_activation(const std::string& name, const std::string& place);
Tensor apply_activation(Context& ctx, const Tensor& x, HiddenActivation kind);

struct MlpSpec {
  std::vector<int64_t> widths;  // of the input, the hidden layers and the output
  HiddenActivation activation = HiddenActivation::kRelu;
  bool batch_norm = false;
  float dropout = 0;
};
// "64,32" as widths of hidden layers; "" for none.
Result<std::vector<int64_t>> parse_widths(const std::string& text, const std::string& place);
Status check(const MlpSpec& spec, const std::string& place);
Json to_json(const MlpSpec& spec);
Result<MlpSpec> mlp_from_json(const Json& json, const std::string& place);

class Mlp {
 public:
  Mlp() = default;
  Mlp(ParameterSet& set, const std::string& name, MlpSpec spec);
  // x [rows, in] -> [rows, out]; no activation after the last layer.
  Tensor operator()(Context& ctx, const Tensor& x);
  const MlpSpec& spec() const { return spec_; }

 private:
  struct Layer {
    Linear linear;
    BatchNorm norm;
  };
  MlpSpec spec_;
  std::vector<Layer> layers_;
};

// Normal weights with variance 2 / inputs for rectifiers (He et al., 2015), 2 / (inputs + outputs) otherwise
// (Glorot and Bengio, 2010); zero biases.
void initialize(ParameterSet& set, HiddenActivation activation, uint64_t seed);

// A folder with net.json and model.safetensors.
Status save_net(const std::string& folder, const Json& description, const ParameterSet& set);
Result<Json> read_net(const std::string& folder);
Status load_weights(const std::string& folder, ParameterSet& set);
// An integer of net.json within bounds.
Result<int64_t> integer_in(const Json& json, const char* key, int64_t min, int64_t max,
                           const std::string& place);

}  // namespace makar
