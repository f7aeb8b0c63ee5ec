#include "llm/loglikelihood.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "infer/score_job.h"

namespace makar {
namespace {

using Tokens = std::vector<int64_t>;
using SourceAndPrefix = std::pair<Tokens, Tokens>;

Tokens slice(const Tokens& tokens, int64_t begin, int64_t end) {
  return {tokens.begin() + begin, tokens.begin() + end};
}

// One window of one text, or the continuations of several texts after the same prefix.
struct ScoreUnit {
  Tokens source;  // of an encoder-decoder
  Tokens prefix;
  std::vector<Tokens> continuations;
  std::vector<size_t> texts;      // one per continuation
  std::vector<size_t> followers;  // units that reuse the pages of this prefix: submitted after this unit
  bool is_follower = false;       // of another unit
};

class Scoring {
 public:
  // A text that could not be encoded has an error and no pointer.
  using Texts = std::vector<const ScoredText*>;
  using Errors = std::vector<std::optional<Error>>;
  Scoring(Engine& engine, const LanguageModel& language, Texts texts, Errors errors,
          const LoglikelihoodOptions& options)
      : engine_(engine),
        language_(language),
        texts_(std::move(texts)),
        o_(options),
        errors_(std::move(errors)),
        sums_(texts_.size()),
        windows_(texts_.size()),
        next_(texts_.size()) {}

  std::vector<Result<Loglikelihood>> run() {
    plan();
    for (size_t i = 0; i < units_.size(); ++i)
      if (!units_[i].is_follower) queue_.push_back(i);
    while (!stopped_ && (!queue_.empty() || !running_.empty())) {
      while (!queue_.empty() && static_cast<int64_t>(running_.size()) < engine_.options().max_branches)
        submit();
      const bool has_work = engine_.step();
      for (size_t i = 0; i < running_.size() && !stopped_;) {
        report(running_[i]);
        if (!stopped_ && (!has_work || running_[i].job->done()))
          finish(i);
        else
          ++i;
      }
    }
    for (const Running& r : running_) engine_.cancel(*r.job);
    std::vector<Result<Loglikelihood>> out;
    for (size_t i = 0; i < texts_.size(); ++i)
      if (errors_[i])
        out.emplace_back(*errors_[i]);
      else
        out.emplace_back(sums_[i]);
    return out;
  }

 private:
  struct Running {
    size_t unit;
    std::shared_ptr<ScoreJob> job;
    std::vector<size_t> reported;  // scores reported per continuation
  };

  // The windows of every text; texts with one window, the same source and the same prefix are one unit.
  void plan() {
    const ContextOptions& context = engine_.options().context;
    const bool one_window = context.policy == ContextPolicy::kSinks || language_.spec().is_encoder_decoder();
    const int64_t size = one_window ? 0 : context_size(language_.spec(), context);
    const int64_t stride = o_.stride > 0 ? o_.stride : std::max<int64_t>(1, size / 2);
    std::map<SourceAndPrefix, size_t> by_prefix;
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (errors_[i]) continue;
      const ScoredText& text = *texts_[i];
      const auto count = static_cast<int64_t>(text.tokens.size());
      if (size > 0 && count > size && (size < 2 || stride >= size)) {
        errors_[i] = error_at("stride", "must be less than the context of {} tokens, got {}", size, stride);
        continue;
      }
      windows_[i] = score_windows(count, text.from, size, stride);
      const Tokens first = slice(text.tokens, windows_[i][0].begin, windows_[i][0].end);
      if (const Status fits = fit_scored(language_.model(), context, {first, text.from, text.source});
          !fits.ok()) {
        errors_[i] = fits.error();
        continue;
      }
      Tokens prefix = slice(text.tokens, windows_[i][0].begin, windows_[i][0].from);
      if (windows_[i].size() == 1) {
        const auto [at, is_new] = by_prefix.try_emplace({text.source, prefix}, units_.size());
        if (!is_new) {
          add(units_[at->second], i, windows_[i][0]);
          continue;
        }
      }
      units_.push_back({text.source, std::move(prefix), {}, {}, {}, false});
      add(units_.back(), i, windows_[i][0]);
    }
    assign_followers(by_prefix);
  }

  void add(ScoreUnit& unit, size_t text, const ScoreWindow& window) {
    unit.continuations.push_back(slice(texts_[text]->tokens, window.from, window.end));
    unit.texts.push_back(text);
    next_[text] = 1;
  }

  // Visits units in the order of their prefixes. A unit that shares at least a page with the current leader
  // follows it, to reuse its pages; any other unit becomes the leader.
  void assign_followers(const std::map<SourceAndPrefix, size_t>& by_prefix) {
    const Tokens* leader_prefix = nullptr;
    size_t leader_unit = 0;
    for (const auto& [key, unit] : by_prefix) {
      const auto& [source, prefix] = key;
      if (!source.empty()) continue;  // cached keys and values depend on the source
      const auto same = leader_prefix ? std::mismatch(leader_prefix->begin(), leader_prefix->end(),
                                                      prefix.begin(), prefix.end())
                                                .first -
                                            leader_prefix->begin()
                                      : 0;
      if (same >= KvCache::kPageRows)
        units_[leader_unit].followers.push_back(unit), units_[unit].is_follower = true;
      else
        leader_prefix = &prefix, leader_unit = unit;
    }
  }

  void submit() {
    const size_t at = queue_.front();
    queue_.pop_front();
    ScoreUnit& unit = units_[at];
    auto job = std::make_shared<ScoreJob>(std::move(unit.prefix), std::move(unit.continuations), o_.top);
    job->source = std::move(unit.source);
    engine_.submit(job);
    running_.push_back({at, std::move(job), std::vector<size_t>(unit.texts.size(), 0)});
  }

  void report(Running& r) {
    const ScoreUnit& unit = units_[r.unit];
    for (size_t c = 0; c < unit.texts.size(); ++c) {
      const size_t text = unit.texts[c];
      const auto from = static_cast<size_t>(windows_[text][next_[text] - 1].from);
      for (size_t& at = r.reported[c]; at < r.job->scores(c).size(); ++at) {
        const Logprobs& score = r.job->scores(c)[at];
        sums_[text].add(score);
        if (o_.on_token && !o_.on_token(text, texts_[text]->tokens[from + at], score)) {
          stopped_ = true;
          return;
        }
      }
    }
  }

  // After a job: queues its followers, and the next windows of its texts.
  void finish(size_t at) {
    const Running done = std::move(running_[at]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
    const ScoreUnit& unit = units_[done.unit];
    const std::vector<size_t> texts = unit.texts;
    queue_.insert(queue_.begin(), unit.followers.begin(), unit.followers.end());
    for (const size_t text : texts) {
      if (done.job->error) {
        errors_[text] = *done.job->error;
        continue;
      }
      ++sums_[text].windows;
      if (next_[text] == windows_[text].size()) continue;
      const ScoreWindow& window = windows_[text][next_[text]++];
      units_.push_back({{},
                        slice(texts_[text]->tokens, window.begin, window.from),
                        {slice(texts_[text]->tokens, window.from, window.end)},
                        {text},
                        {},
                        false});
      queue_.push_front(units_.size() - 1);
    }
  }

  Engine& engine_;
  const LanguageModel& language_;
  Texts texts_;
  const LoglikelihoodOptions& o_;
  Errors errors_;
  std::vector<Loglikelihood> sums_;
  std::vector<std::vector<ScoreWindow>> windows_;
  std::vector<size_t> next_;  // the next window of each text
  std::deque<ScoreUnit> units_;
  std::deque<size_t> queue_;
  std::vector<Running> running_;
  bool stopped_ = false;
};

}  // namespace

void Loglikelihood::add(const Logprobs& token) {
  logprob += static_cast<double>(token.chosen);
  is_greedy = is_greedy && token.rank == 0;
  ++tokens;
}

double Loglikelihood::perplexity() const { return std::exp(-logprob / static_cast<double>(tokens)); }

std::vector<Result<Loglikelihood>> loglikelihood(Engine& engine, const LanguageModel& language,
                                                 std::span<const ScoredText> texts,
                                                 const LoglikelihoodOptions& options) {
  Scoring::Texts pointers;
  for (const ScoredText& text : texts) pointers.push_back(&text);
  return Scoring(engine, language, std::move(pointers), Scoring::Errors(texts.size()), options).run();
}

std::vector<Result<Loglikelihood>> loglikelihood(Engine& engine, const LanguageModel& language,
                                                 std::span<const Result<ScoredText>> texts,
                                                 const LoglikelihoodOptions& options) {
  Scoring::Texts pointers;
  Scoring::Errors errors;
  for (const auto& text : texts) {
    pointers.push_back(text.ok() ? &*text : nullptr);
    errors.push_back(text.ok() ? std::nullopt : std::optional(text.error()));
  }
  return Scoring(engine, language, std::move(pointers), std::move(errors), options).run();
}

std::vector<Result<Loglikelihood>> loglikelihood(Engine& engine, const LanguageModel& language,
                                                 std::span<const ContextAndContinuation> texts,
                                                 const LoglikelihoodOptions& options) {
  std::vector<Result<ScoredText>> encoded;
  for (const auto& text : texts) encoded.push_back(encode_scored(language, text.context, text.continuation));
  return loglikelihood(engine, language, encoded, options);
}

}  // namespace makar
