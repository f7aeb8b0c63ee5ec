// For commands that generate with a decoder: opens the model and creates its engine.
#pragma once
#include <functional>

#include "cli/generation_flags.h"
#include "infer/engine.h"

namespace makar {

using EngineUse = std::function<int(Engine&, const LanguageModel&)>;

// Opens a decoder-only model with a tokenizer, calls `use` and returns its exit code. If the model cannot be
// opened, reports the error and returns 1 or 2.
int with_engine(const ModelOptions& model, GenerationFlags& flags, Device& device, const EngineUse& use);
// The same on the device of --device.
int with_engine(const ModelOptions& model, GenerationFlags& flags, const EngineUse& use);

}  // namespace makar
