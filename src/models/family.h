// A family is a page: how its config.json reads, and what its weight files call things. The table of all
// families is registry.cpp.
#pragma once
#include <string>
#include <vector>

#include "models/names.h"
#include "models/reader.h"

namespace makar {

struct Family {
  const char* type;    // config.json "model_type"
  const char* prefix;  // of the body's tensors; files of bare bodies leave it out
  Result<ModelSpec> (*read)(const Config& config);
  std::vector<NameRule> (*names)(const ModelSpec& spec);
  // Where transformers' names in memory (of gradients, say) differ from those in its files; else null.
  std::vector<NameRule> (*names_in_memory)(const ModelSpec& spec) = nullptr;
  // Ends of names in files that carry no weights of ours: buffers, tied copies.
  std::vector<std::string> ignored = {};
};

const std::vector<const Family*>& families();
// By "model_type"; the error names the nearest known one.
Result<const Family*> find_family(const Config& config);

}  // namespace makar
