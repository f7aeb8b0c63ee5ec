// Constrained decoding: computes which tokens may come next so that the text matches a JSON schema, a regular
// expression or a GBNF grammar. All three are compiled to one pushdown automaton over bytes; where a grammar
// matches characters, only well-formed UTF-8 is allowed.
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

// An immutable handle: copies share their data. Thread-safe.
class Grammar {
 public:
  // Compiles a schema within `limits`; the cost is also charged to `work`, the budget of the request. See
  // json_schema.h for what is enforced. Text "{}" or "true": any JSON value.
  static Result<Grammar> from_json_schema(std::string_view text, const GrammarLimits& limits = {},
                                          WorkBudget* work = nullptr);
  // The whole text matches; see regex.h for the notation.
  static Result<Grammar> from_regex(std::string_view text, const GrammarLimits& limits = {},
                                    WorkBudget* work = nullptr);
  // llama.cpp's notation; the start rule is 'root'.
  static Result<Grammar> from_gbnf(std::string_view text, const GrammarLimits& limits = {},
                                   WorkBudget* work = nullptr);

  // Constraints of the source that the grammar does not enforce, with location: "#/properties/n: multipleOf".
  const std::vector<std::string>& not_enforced() const;

  struct Impl;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  explicit Grammar(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  static Result<Grammar> make(const grammar::RuleSet& rules, std::vector<std::string> not_enforced,
                              const GrammarLimits& limits, WorkBudget& work);
  std::shared_ptr<const Impl> impl_;
};

namespace grammar {
struct Snapshot;
}

// The parse state of a text. Copies share common data and advance independently.
class GrammarState {
 public:
  explicit GrammarState(const Grammar& grammar);

  // Sets the bits of the tokens that may come next (including the trie's end tokens if the text may end) and
  // clears all others. bits.size() is trie.words(). Fails if the grammar exceeds a limit. The mask ignores
  // the depth limit: accept() may still reject an allowed token because of it.
  Status mask(const TokenTrie& trie, std::span<uint64_t> bits) const;
  // True if mask() is cached or takes less than a millisecond; computes and caches it in that case.
  bool mask_is_cheap(const TokenTrie& trie) const;
  // Advances by the bytes of a token. Returns false and changes nothing if they do not match or a limit is
  // exceeded (limit()).
  bool accept(std::string_view bytes);
  // True if the text may end here.
  bool may_end() const;
  // True if only the end may follow.
  bool must_end() const;
  const std::optional<Error>& limit() const { return limit_; }

 private:
  std::shared_ptr<const Grammar::Impl> grammar_;
  std::shared_ptr<const grammar::Snapshot> snapshot_;
  std::optional<Error> limit_;
};

// Sets the logits of tokens whose bit is clear to -infinity.
void apply_mask(std::span<float> logits, std::span<const uint64_t> bits);

}  // namespace makar
