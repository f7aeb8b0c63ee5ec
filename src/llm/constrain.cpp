#include "llm/constrain.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "text/token_bytes.h"

namespace makar {
namespace {

class GrammarConstraint : public Constraint {
 public:
  GrammarConstraint(GrammarState state, TokenTrie trie, std::shared_ptr<const std::vector<std::string>> bytes)
      : state_(std::move(state)), trie_(std::move(trie)), bytes_(std::move(bytes)) {}

  void compute_on(RunOnWorker run_on_worker) override { run_on_worker_ = std::move(run_on_worker); }

  bool ready() override {
    if (pending_) return pending_->done;
    if (!run_on_worker_ || state_.mask_is_cheap(trie_)) return true;
    auto pending = std::make_shared<Pending>();
    const bool posted = run_on_worker_([pending, state = state_, trie = trie_] {
      pending->bits.resize(trie.words());
      pending->status = state.mask(trie, pending->bits);
      pending->done = true;
    });
    if (posted) pending_ = std::move(pending);
    return !posted;
  }

  Status mask(std::span<float> logits) override {
    if (pending_ && pending_->done) {
      MAKAR_RETURN_IF_ERROR(pending_->status);
      bits_ = pending_->bits;
    } else {
      bits_.resize(trie_.words());
      MAKAR_RETURN_IF_ERROR(state_.mask(trie_, bits_));
    }
    // Rows beyond the tokenizer's ids are padding of the output matrix.
    const size_t vocab = std::min(logits.size(), trie_.vocab());
    std::fill(logits.begin() + static_cast<int64_t>(vocab), logits.end(), -INFINITY);
    apply_mask(logits.first(vocab), bits_);
    return Done{};
  }

  Status accept(int64_t token) override {
    pending_.reset();
    const auto& end_ids = trie_.data().end;
    if (std::find(end_ids.begin(), end_ids.end(), token) != end_ids.end()) return Done{};
    if (state_.accept((*bytes_)[static_cast<size_t>(token)])) return Done{};
    if (state_.limit()) return *state_.limit();
    return error_at("grammar", "token {} does not fit at this point of the text", token);
  }

  std::unique_ptr<Constraint> fork() const override { return std::make_unique<GrammarConstraint>(*this); }

 private:
  // A mask being computed on a worker thread.
  struct Pending {
    std::vector<uint64_t> bits;
    Status status = Done{};
    std::atomic<bool> done{false};  // set last
  };
  GrammarState state_;
  TokenTrie trie_;
  std::shared_ptr<const std::vector<std::string>> bytes_;
  std::vector<uint64_t> bits_;
  RunOnWorker run_on_worker_;
  std::shared_ptr<Pending> pending_;
};

}  // namespace

Result<Constrainer> Constrainer::of(const LanguageModel& language) {
  if (!language.has_tokenizer())
    return error_of(Error::Kind::kNotFound, "tokenizer", "the model has none, and a grammar needs one");
  auto bytes = std::make_shared<const std::vector<std::string>>(token_bytes(language.tokenizer()));
  TokenTrie trie(*bytes, language.stop_ids());
  return Constrainer(std::move(bytes), std::move(trie));
}

Result<std::shared_ptr<Constraint>> Constrainer::constrain(const Grammar& grammar) const {
  const GrammarState start(grammar);
  std::vector<uint64_t> first_mask(trie_.words());
  MAKAR_RETURN_IF_ERROR(start.mask(trie_, first_mask));
  return std::shared_ptr<Constraint>(std::make_shared<GrammarConstraint>(start, trie_, bytes_));
}

}  // namespace makar
