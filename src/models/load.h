// Loading models from Hugging Face folders and GGUF files; saving folders.
#pragma once
#include <memory>
#include <string>

#include "models/family.h"
#include "models/model.h"

namespace makar {

struct LoadOptions {
  // Copies the weights to f32 for training; otherwise matrices stay mapped in the type of the file.
  bool trainable = false;
  // Dequantizes matrices that another program quantized (formats/prequantized.h) to f32. Otherwise they keep
  // an integer type, whose products round activations.
  bool exact = false;
};

struct LoadedModel {
  const Family* family;
  std::unique_ptr<Model> model;
  std::vector<std::string> warnings = {};  // for the user: e.g. a tokenizer that was changed after conversion
};

// Builds the model that a config describes; its parameters have no values yet.
Result<LoadedModel> make_model(const Config& config);
struct ModelSource;
Result<LoadedModel> load_model(const ModelSource& source, const LoadOptions& options = {});
// Loads a Hugging Face folder, a GGUF file, or a folder with one GGUF file.
Result<LoadedModel> load_model(const std::string& path, const LoadOptions& options = {});

// Writes config.json and the weights under the family's names, in shards when they exceed max_shard_bytes.
Status save_model(const std::string& folder, const Model& model, const Family& family,
                  size_t max_shard_bytes = size_t{5} << 30);

// Tensors under the family's file names (or its names in memory); `value` returns the tensor of a parameter,
// e.g. its weights or its gradients.
std::vector<NamedTensor> named_tensors(const Model& model, const Family& family, bool in_memory,
                                       const std::function<Tensor(const Parameter&)>& value);

// Random weights: normal matrices with the config's standard deviation, zero biases, unit norms; a pure
// function of the seed.
void initialize(Model& model, uint64_t seed);

}  // namespace makar
