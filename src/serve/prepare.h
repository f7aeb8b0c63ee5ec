// From what a client asks for to what the engine is given: ids, a constraint, bounds that hold for this
// model.
#pragma once
#include "llm/constrain.h"
#include "serve/api/ask.h"

namespace makar {

// What a server knows of a model, made once.
struct ServedModel {
  LanguageModel language;
  Constrainer constrainer;
  std::vector<std::string> tokens;  // the text of each id, special ones by their names
  ContextOptions context;
  std::string name, path;

  static Result<ServedModel> of(LanguageModel language, const ContextOptions& context,
                                const std::string& name, const std::string& path);
  int64_t context_limit() const { return context_size(language.spec(), context); }
};

// The ids of each prompt. Fills the constraint and the seed of ask.write, and bounds its length.
Result<std::vector<std::vector<int64_t>>> prepare(Ask& ask, const ServedModel& model);

// Whether a prompt leaves room for a token; the place of the error is `place`.
Status check_room(const std::vector<int64_t>& prompt, const ServedModel& model, const std::string& place);

}  // namespace makar
