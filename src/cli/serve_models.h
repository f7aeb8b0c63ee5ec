// The models of `makar serve` and how each is opened within the shared memory budget.
#pragma once
#include "cli/generation_flags.h"
#include "serve/collection.h"
#include "serve/model_registry.h"

namespace makar {

struct ServedModelOptions {
  ModelOptions model;  // the first model
  EngineFlags engine;
  SpeculationOptions speculation;    // of the first model
  std::string alias, folder;         // --alias, --models-dir
  std::vector<std::string> others;   // --add-model [NAME=]PATH
  std::vector<std::string> modules;  // --lora-modules NAME=FOLDER
  std::vector<std::string> indexes;  // --index [NAME=]FILE[#COLLECTION]
  int64_t passages = 4;              // --index-passages
  double min_relevance = 0.3;        // --min-relevance
  int64_t max_loaded = 4, parallel = 64;

  void declare(Options& options);
  // The first model with its adapters, then the others. Errors: duplicate or empty names, missing paths.
  Result<std::vector<ModelEntry>> entries() const;
  // The collections of --index. Errors: missing files, names that are used twice or by `entries`.
  Result<std::vector<std::shared_ptr<ServedCollection>>> collections(
      const std::vector<ModelEntry>& entries) const;
  // Memory limit in bytes for requests in flight. Bodies that are still being received have a separate limit
  // of half as much.
  int64_t request_memory() const;
  // Opens one model; all engines share `device` and `turns`. `single_model`: no other model will be loaded.
  // These options must outlive the opener.
  ModelRegistry::Opener opener(Device& device, Turns& turns, bool single_model) const;
};

}  // namespace makar
