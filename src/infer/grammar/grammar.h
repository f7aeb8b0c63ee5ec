// Constrained decoding: which tokens may come next so that the text obeys a JSON schema, a regular expression
// or a GBNF grammar. All three become one pushdown automaton over bytes; where a grammar speaks of
// characters, only well-formed UTF-8 is ever allowed.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "infer/grammar/automaton.h"
#include "infer/grammar/token_trie.h"

namespace makar {

using GrammarLimits = grammar::Limits;

// An immutable handle: copies share, any number of threads may use one at once.
class Grammar {
 public:
  // See json_schema.h for what is enforced. Text "{}" or "true": any JSON value.
  static Result<Grammar> from_json_schema(std::string_view text, const GrammarLimits& limits = {});
  // The whole text matches; see regex.h for the notation.
  static Result<Grammar> from_regex(std::string_view text, const GrammarLimits& limits = {});
  // llama.cpp's notation; the rule 'root' is the text.
  static Result<Grammar> from_gbnf(std::string_view text, const GrammarLimits& limits = {});

  // What the source asks for and the grammar does not enforce, with its place: "#/properties/n: multipleOf".
  const std::vector<std::string>& not_enforced() const;

  struct Impl;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  explicit Grammar(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  static Result<Grammar> make(const grammar::RuleSet& rules, std::vector<std::string> not_enforced,
                              const GrammarLimits& limits);
  std::shared_ptr<const Impl> impl_;
};

namespace grammar {
struct Snapshot;
}

// How far a text has come in its grammar. Copies share what they have in common and then go their own ways.
class GrammarState {
 public:
  explicit GrammarState(const Grammar& grammar);

  // Sets the bits of the tokens that may come next, the trie's end tokens where the text may end, and clears
  // all others. bits.size() is trie.words(). Error: a limit of the grammar. A mask does not count the depth:
  // a token it allows may still meet that limit in accept().
  Status mask(const TokenTrie& trie, std::span<uint64_t> bits) const;
  // Goes on by the bytes of a token. False, and nothing changes: they do not fit, or a limit was met
  // (limit()).
  bool accept(std::string_view bytes);
  // The text may end here.
  bool may_end() const;
  // Nothing but the end may follow.
  bool must_end() const;
  const std::optional<Error>& limit() const { return limit_; }

 private:
  std::shared_ptr<const Grammar::Impl> grammar_;
  std::shared_ptr<const grammar::Snapshot> at_;
  std::optional<Error> limit_;
};

// Sets the logits of tokens whose bit is clear to -infinity.
void apply_mask(std::span<float> logits, std::span<const uint64_t> bits);

}  // namespace makar
