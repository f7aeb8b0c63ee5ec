// A family is one page: how to read its config.json, and the names in its weight files and in GGUF.
// registry.cpp lists all families.
#pragma once
#include <string>
#include <vector>

#include "models/gguf_section.h"
#include "models/names.h"
#include "models/reader.h"

namespace makar {

struct Family {
  const char* type;    // config.json "model_type"
  const char* prefix;  // of the body's tensors; files of a body without head omit it
  Result<ModelSpec> (*read)(const Config& config);
  NameTable names;
  // The names transformers uses in memory (e.g. for gradients) where they differ from its files; else null.
  NameTable names_in_memory = nullptr;
  // Suffixes, or prefixes that end with a dot, of tensor names that are ignored in files: buffers, tied
  // copies.
  std::vector<std::string> ignored = {};
  const GgufSection* gguf = nullptr;  // null: GGUF has no architecture for it
};

const std::vector<const Family*>& families();
// Finds the family by "model_type"; the error names the nearest known one.
Result<const Family*> find_family(const Config& config);

}  // namespace makar
