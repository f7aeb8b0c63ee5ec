// The architectures of GGUF: the family of each, the config.json field of each metadata key, and the names of
// its tensors. One table for reading and writing.
#pragma once
#include <string>
#include <vector>

#include "formats/gguf_value.h"
#include "models/names.h"

namespace makar {

struct GgufKey {
  const char* key;    // after "ARCHITECTURE."
  const char* field;  // of config.json; "" for keys that are only written, for other readers
  enum Kind { kInteger, kReal, kFlag } kind;
  bool required;                           // when reading a file
  double (*value)(const ModelSpec& spec);  // the value to write; negative: the key is omitted
};

struct GgufArchitecture {
  const char* name;        // "general.architecture"
  const char* model_type;  // of config.json
  const char* model;       // "LlamaForCausalLM"
  std::vector<GgufKey> keys;
  // Fields that have these values in every model of the architecture; a model with other values cannot be
  // written.
  std::vector<std::pair<const char*, Json>> implied;
  std::vector<NameRule> (*names)(const ModelSpec& spec);
  // The names in files of older or newer converters; read, never written.
  std::vector<std::vector<NameRule> (*)(const ModelSpec& spec)> other_names = {};
};

// Finds the architecture by "general.architecture" and other metadata (a llama with experts is a Mixtral).
// The error lists the supported ones.
Result<const GgufArchitecture*> find_gguf_architecture(const GgufFields& fields);
// By a family's model_type; nullptr when GGUF has no such architecture.
const GgufArchitecture* gguf_architecture_of(const std::string& model_type);

}  // namespace makar
