// Where a model comes from: a Hugging Face folder, a GGUF file, or a folder that holds one GGUF file.
#pragma once
#include <string>

#include "formats/config.h"
#include "formats/weights.h"

namespace makar {

struct ModelSource {
  std::string path;  // of the folder, or of the GGUF file
  Config config;
  Gguf::File gguf;  // null for a Hugging Face folder

  static Result<ModelSource> open(const std::string& path);
  static Result<ModelSource> of(Gguf::File file);
  Result<WeightFiles> weights() const;
};

}  // namespace makar
