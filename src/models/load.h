// Loading models from Hugging Face folders and GGUF files; saving folders.
#pragma once
#include <memory>
#include <string>

#include "models/family.h"
#include "models/model.h"

namespace makar {

struct LoadOptions {
  // Copies the weights to f32 so that they can be trained; otherwise matrices stay as the file holds them,
  // mapped.
  bool trainable = false;
};

struct LoadedModel {
  const Family* family;
  std::unique_ptr<Model> model;
  std::vector<std::string> warnings = {};  // for people: a tokenizer that is not the model's own
};

// The model a config describes, its parameters without values.
Result<LoadedModel> make_model(const Config& config);
struct ModelSource;
Result<LoadedModel> load_model(const ModelSource& source, const LoadOptions& options = {});
// From a Hugging Face folder, a GGUF file, or a folder that holds one.
Result<LoadedModel> load_model(const std::string& path, const LoadOptions& options = {});

// Writes config.json and the weights under the family's names, in shards when they are larger than
// max_shard_bytes.
Status save_model(const std::string& folder, const Model& model, const Family& family,
                  size_t max_shard_bytes = size_t{5} << 30);

// Values under the family's file names (or its names in memory), one tensor for each that the file has;
// `value` gives the tensor of a parameter: its weights, or its gradients.
std::vector<NamedTensor> named_tensors(const Model& model, const Family& family, bool in_memory,
                                       const std::function<Tensor(const Parameter&)>& value);

// Random weights: normal matrices of the config's deviation, zero biases, unit norms; a pure function of the
// seed.
void initialize(Model& model, uint64_t seed);

}  // namespace makar
