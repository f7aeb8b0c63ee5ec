// The model of makar eval, judge and detect: a local one, or (eval, judge) an OpenAI-compatible server.
#pragma once
#include <functional>

#include "cli/model_options.h"
#include "eval/url_model.h"

namespace makar {

struct EvalModelFlags {
  ModelOptions model;
  EngineFlags engine;
  UrlModelOptions url;  // if the model is a URL
  bool no_prefix_cache = false;
  void declare_url(Options& options);
  // Checks bounds. Errors are bad usage.
  Status check() const;
};

// The settings of a local model that change its results; part of the keys of the response cache.
Result<Json> model_identity(const EvalModelFlags& flags);

// Opens the model, calls `use`, and returns its exit code; 1 or 2 if the model cannot be opened.
int with_eval_model(EvalModelFlags& flags, const std::function<int(EvalModel&)>& use);
// The same for a local model, with its engine.
int with_engine(EvalModelFlags& flags, const std::function<int(Engine&, const LanguageModel&)>& use);

}  // namespace makar
