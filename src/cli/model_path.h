// Resolves models given as paths or as names of downloaded models.
#pragma once
#include <string>

#include "base/error.h"

namespace makar {

// The name of a model: the last part of its path, without .gguf.
std::string model_name(const std::string& path);

// The folder of downloaded models: MAKAR_MODELS, or makar/models in the user's data folder (XDG).
Result<std::string> model_folder();

// Resolves a path or the name of a downloaded model to a path. Anything else is returned unchanged; opening
// it reports what is missing.
std::string resolve_model(const std::string& name);

// The model that comes with the program: share/makar/world.gguf of the installation, models/world.gguf in
// a clone; "" if there is none.
std::string default_model();

}  // namespace makar
