// The architectures of GGUF: which family each is, which metadata key is which field of a config.json, and
// what its tensors are called. One table, read both ways.
#pragma once
#include <string>
#include <vector>

#include "formats/gguf_value.h"
#include "models/names.h"

namespace makar {

struct GgufKey {
  const char* key;    // after "ARCHITECTURE."
  const char* field;  // of config.json; "" where the key is only written, for other readers
  enum Kind { kInteger, kReal, kFlag } kind;
  bool required;                           // in a file that is read
  double (*value)(const ModelSpec& spec);  // what is written; negative: the key is left out
};

struct GgufArchitecture {
  const char* name;        // "general.architecture"
  const char* model_type;  // of config.json
  const char* model;       // "LlamaForCausalLM"
  std::vector<GgufKey> keys;
  // Fields that every model of the architecture has with these values; a model with others cannot be written.
  std::vector<std::pair<const char*, Json>> implied;
  std::vector<NameRule> (*names)(const ModelSpec& spec);
  // What files of other ages call the same; read, never written.
  std::vector<std::vector<NameRule> (*)(const ModelSpec& spec)> other_names = {};
};

// By "general.architecture" and what the metadata says beyond it (a llama with experts is a Mixtral). The
// error names the known ones.
Result<const GgufArchitecture*> find_gguf_architecture(const GgufFields& fields);
// By a family's model_type; nullptr where GGUF has no name for it.
const GgufArchitecture* gguf_architecture_of(const std::string& model_type);

}  // namespace makar
