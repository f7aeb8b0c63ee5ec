#include "infer/grammar/grammar.h"

#include <limits>

#include "infer/grammar/gbnf.h"
#include "infer/grammar/json_schema.h"
#include "infer/grammar/mask_cache.h"
#include "infer/grammar/regex.h"

namespace makar {

struct Grammar::Impl {
  grammar::Automaton automaton;
  std::vector<std::string> not_enforced;
  std::shared_ptr<const grammar::Snapshot> start;
  mutable grammar::MaskCache cache;
};

Result<Grammar> Grammar::make(const grammar::RuleSet& rules, std::vector<std::string> not_enforced,
                              const GrammarLimits& limits, WorkBudget& work) {
  auto impl = std::make_shared<Impl>();
  MAKAR_TRY(impl->automaton, grammar::compile(rules, limits, work));
  impl->not_enforced = std::move(not_enforced);
  grammar::Machine m(impl->automaton);
  impl->start = std::make_shared<const grammar::Snapshot>(m.snapshot(m.initial()));
  if (m.limit_exceeded()) return m.limit();
  return Grammar(std::move(impl));
}

Result<Grammar> Grammar::from_gbnf(std::string_view text, const GrammarLimits& limits, WorkBudget* work) {
  WorkBudget budget(limits.work, work);
  MAKAR_TRY(const auto rules, grammar::read_gbnf(text, limits, budget));
  return make(rules, {}, limits, budget);
}

Result<Grammar> Grammar::from_regex(std::string_view text, const GrammarLimits& limits, WorkBudget* work) {
  WorkBudget budget(limits.work, work);
  MAKAR_TRY(const auto expr, grammar::read_regex(text, limits, budget));
  grammar::RuleSet rules;
  rules.add("regex", expr);
  return make(rules, {}, limits, budget);
}

Result<Grammar> Grammar::from_json_schema(std::string_view text, const GrammarLimits& limits,
                                          WorkBudget* work) {
  WorkBudget budget(limits.work, work);
  MAKAR_TRY(auto schema, grammar::read_json_schema(text, limits, budget));
  return make(schema.rules, std::move(schema.not_enforced), limits, budget);
}

const std::vector<std::string>& Grammar::not_enforced() const { return impl_->not_enforced; }

GrammarState::GrammarState(const Grammar& grammar) : grammar_(grammar.impl()), snapshot_(grammar_->start) {}

Status GrammarState::mask(const TokenTrie& trie, std::span<uint64_t> bits) const {
  check(bits.size() == trie.words(), "a mask has trie.words() words");
  MAKAR_TRY(const auto mask,
            grammar_->cache.mask(grammar_->automaton, trie, snapshot_, grammar_->automaton.limits.steps));
  std::copy(mask->begin(), mask->end(), bits.begin());
  if (may_end())
    for (const int64_t id : trie.data().end) bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  return Done{};
}

bool GrammarState::mask_is_cheap(const TokenTrie& trie) const {
  constexpr size_t kCheapSteps = 20'000;  // less than a millisecond
  return grammar_->cache.mask(grammar_->automaton, trie, snapshot_, kCheapSteps).ok();
}

bool GrammarState::accept(std::string_view bytes) {
  grammar::Machine m(grammar_->automaton, *snapshot_);
  int32_t state = m.state_of(*snapshot_);
  for (const char c : bytes) {
    state = m.step(state, static_cast<uint8_t>(c));
    if (state == grammar::Machine::kDead) break;
  }
  if (m.limit_exceeded()) limit_ = m.limit();
  if (state == grammar::Machine::kDead) return false;
  snapshot_ = std::make_shared<const grammar::Snapshot>(m.snapshot(state));
  return true;
}

bool GrammarState::may_end() const { return snapshot_->may_end; }
bool GrammarState::must_end() const { return snapshot_->may_end && snapshot_->parses.empty(); }

void apply_mask(std::span<float> logits, std::span<const uint64_t> bits) {
  check(bits.size() * 64 >= logits.size(), "the mask covers the logits");
  for (size_t i = 0; i < logits.size(); ++i)
    if (!(bits[i / 64] >> (i % 64) & 1)) logits[i] = -std::numeric_limits<float>::infinity();
}

}  // namespace makar
