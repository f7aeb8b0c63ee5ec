// Adapters in PEFT's form: adapter_config.json and adapter_model.safetensors beside a base model.
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
  std::vector<std::string> targets;  // ends of module names as the base's files call them, e.g. "q_proj"
  std::vector<std::string> modules_to_save;  // trained whole, beside the adapter
  Json json;                                 // adapter_config.json as it was read
  float scale() const;                       // alpha / r, or alpha / sqrt(r)
};

// Puts new adapters on the target modules of a model: A random, B zero. The base is frozen and may be of any
// type; what is trained whole becomes f32.
Status add_adapter(const LoadedModel& loaded, const AdapterConfig& config, Device& device, uint64_t seed);
Result<AdapterConfig> read_adapter_config(const std::string& folder);
// Reads an adapter's folder and puts it on the model.
Result<AdapterConfig> load_adapter(const LoadedModel& loaded, const std::string& folder, Device& device);

// Several adapters of one model. The ones in use stand beside each layer as one of their ranks' sum, so that
// any number costs one.
class AdapterSet {
 public:
  AdapterSet(const LoadedModel& loaded, Device& device) : loaded_(loaded), device_(device) {}
  // Reads a folder; it is not in use yet. One of DoRA, or with modules_to_save, cannot share a model
  // (kUnsupported).
  Status load(const std::string& folder);
  // Every layer offers those that were loaded, by their numbers, for rows to choose among.
  void offer();
  // A weight for each that was loaded; 0: not in use.
  void use(const std::vector<float>& weights);

 private:
  struct Part {
    Linear* linear;
    Tensor a, b;
    float scale;
  };
  const LoadedModel& loaded_;
  Device& device_;
  std::vector<std::vector<Part>> adapters_;
};
// "FOLDER" or "FOLDER:WEIGHT", all in use. A single one of weight 1 may be of any kind.
Status load_adapters(const LoadedModel& loaded, const std::vector<std::string>& choices, Device& device);

Status save_adapter(const LoadedModel& loaded, const AdapterConfig& config, const std::string& folder);
// Folds the adapters into the weights and takes them off; a weight of a block type
// becomes f32.
void merge_adapter(const LoadedModel& loaded, Device& device);

}  // namespace makar
