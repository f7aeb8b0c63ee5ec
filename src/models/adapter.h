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

// Puts new adapters on the target modules of a model: A random, B zero. The base is frozen.
Status add_adapter(const LoadedModel& loaded, const AdapterConfig& config, ThreadPool& pool, uint64_t seed);
// Reads an adapter's folder and puts it on the model.
Result<AdapterConfig> load_adapter(const LoadedModel& loaded, const std::string& folder, ThreadPool& pool);
Status save_adapter(const LoadedModel& loaded, const AdapterConfig& config, const std::string& folder);
// Folds the adapters into the weights and takes them off.
void merge_adapter(const LoadedModel& loaded, ThreadPool& pool);

}  // namespace makar
