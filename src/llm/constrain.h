// Creates the constraint of a request from a JSON schema, a regular expression or a GBNF grammar, over the
// model's own tokens.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "infer/constraint.h"
#include "infer/grammar/grammar.h"
#include "llm/language_model.h"

namespace makar {

// The vocabulary of a model in the form grammars need. Construction reads the whole vocabulary, so keep one
// instance for many requests. An immutable handle; thread-safe.
class Constrainer {
 public:
  // Fails if the model has no tokenizer.
  static Result<Constrainer> of(const LanguageModel& language);
  // Computes the mask of the first token, often the most expensive one. Fails if the grammar exceeds a limit.
  Result<std::shared_ptr<Constraint>> constrain(const Grammar& grammar) const;
  // The bytes that each token adds to a text, by id; empty for special tokens.
  const std::vector<std::string>& bytes() const { return *bytes_; }

 private:
  Constrainer(std::shared_ptr<const std::vector<std::string>> bytes, TokenTrie trie)
      : bytes_(std::move(bytes)), trie_(std::move(trie)) {}
  std::shared_ptr<const std::vector<std::string>> bytes_;
  TokenTrie trie_;
};

}  // namespace makar
