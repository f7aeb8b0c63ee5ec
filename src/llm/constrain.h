// A grammar as the constraint of a request: a JSON schema, a regular expression or GBNF over the model's own
// tokens.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "infer/constraint.h"
#include "infer/grammar/grammar.h"
#include "llm/language_model.h"

namespace makar {

// The tokens of a model as grammars see them. Making it reads the whole vocabulary: one is kept where
// requests with grammars of their own come and go. An immutable handle; any number of threads may use one.
class Constrainer {
 public:
  // Errors: a model without a tokenizer.
  static Result<Constrainer> of(const LanguageModel& language);
  std::shared_ptr<Constraint> constrain(const Grammar& grammar) const;
  // What each token adds to a text, by id; empty for special ones.
  const std::vector<std::string>& bytes() const { return *bytes_; }

 private:
  Constrainer(std::shared_ptr<const std::vector<std::string>> bytes, TokenTrie trie)
      : bytes_(std::move(bytes)), trie_(std::move(trie)) {}
  std::shared_ptr<const std::vector<std::string>> bytes_;
  TokenTrie trie_;
};

}  // namespace makar
