// Adapters in PEFT's format: adapter_config.json and adapter_model.safetensors for a base model.
#pragma once
#include <string>
#include <vector>

#include "models/load.h"

namespace makar {

struct AdapterConfig {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool rslora = false, dora = false;
  std::vector<std::string> targets;          // suffixes of module names in the base's files, e.g. "q_proj"
  std::vector<std::string> modules_to_save;  // trained in full, in addition to the adapter
  Json json;                                 // adapter_config.json as it was read
  float scale() const;                       // alpha / r, or alpha / sqrt(r)
};

// Adds new adapters to the target modules of a model: A random, B zero. The base is frozen and may be of any
// dtype; modules_to_save become f32.
Status add_adapter(const LoadedModel& loaded, const AdapterConfig& config, Device& device, uint64_t seed);
Result<AdapterConfig> read_adapter_config(const std::string& folder);
// Reads an adapter's folder and adds it to the model.
Result<AdapterConfig> load_adapter(const LoadedModel& loaded, const std::string& folder, Device& device);

// Several adapters of one model. Each layer gets one adapter whose rank is the sum of the ranks of the
// adapters in use, so any number of adapters costs one product.
class AdapterSet {
 public:
  AdapterSet(const LoadedModel& loaded, Device& device) : loaded_(loaded), device_(device) {}
  // Reads a folder; its adapter is not in use yet. Errors (kUnsupported): DoRA and modules_to_save, which
  // cannot be combined with other adapters.
  Status load(const std::string& folder);
  // Makes every loaded adapter selectable per row, by its index.
  void add_row_adapters();
  // One weight per loaded adapter; 0: not in use.
  void use(const std::vector<float>& weights);

 private:
  struct AdaptedLinear {
    Linear* linear;
    Tensor a, b;
    float scale;
  };
  const LoadedModel& loaded_;
  Device& device_;
  std::vector<std::vector<AdaptedLinear>> adapters_;
};
// Loads and uses adapters; each choice is "FOLDER" or "FOLDER:WEIGHT". A single adapter with weight 1 may
// also have DoRA or modules_to_save.
Status load_adapters(const LoadedModel& loaded, const std::vector<std::string>& choices, Device& device);

Status save_adapter(const LoadedModel& loaded, const AdapterConfig& config, const std::string& folder);
// Adds the adapters to the weights and removes them; weights of a block type become f32.
void merge_adapter(const LoadedModel& loaded, Device& device);

}  // namespace makar
