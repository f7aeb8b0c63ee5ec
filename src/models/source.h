// The source of a model: a Hugging Face folder, a GGUF file, or a folder with one GGUF file.
#pragma once
#include <string>

#include "formats/config.h"
#include "formats/weights.h"

namespace makar {

struct ModelSource {
  std::string path;  // the folder or the GGUF file
  Config config;
  Gguf::File gguf;  // null for a Hugging Face folder

  static Result<ModelSource> open(const std::string& path);
  static Result<ModelSource> of(Gguf::File file);
  Result<WeightFiles> weights() const;
};

}  // namespace makar
