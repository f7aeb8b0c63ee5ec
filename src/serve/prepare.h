// Converts a parsed request into the input of the engine: ids, a constraint, and limits that are valid for
// this model.
#pragma once
#include "llm/constrain.h"
#include "serve/api/generation_request.h"

namespace makar {

// Per-model data of the server, computed once at load.
struct ServedModel {
  LanguageModel language;
  Constrainer constrainer;
  std::vector<std::string> tokens;  // text per id; special tokens by name
  ContextOptions context;
  std::string name, path;
  Speculation speculation = {};

  static Result<ServedModel> of(LanguageModel language, const ContextOptions& context,
                                const std::string& name, const std::string& path);
  int64_t context_limit() const { return context_size(language.spec(), context); }
};

// The token ids of each prompt. Sets the constraint and seed of request.options and limits its length.
// `work`: the budget for templates, tokenization and grammars.
Result<std::vector<std::vector<int64_t>>> prepare(GenerationRequest& request, const ServedModel& model,
                                                  WorkBudget& work);
// Bytes of text that prepare() renders or encodes, to choose the worker lane; 1 MiB if it compiles a grammar.
size_t preparation_bytes(const GenerationRequest& request);

// Checks that the prompt leaves room for at least one token. `place`: the field named in the error.
Status check_fits_context(const std::vector<int64_t>& prompt, const ServedModel& model,
                          const std::string& place, const ImageInputs* images = nullptr);

}  // namespace makar
