#include "lexical/ngram_train.h"

#include <cmath>
#include <limits>

#include "base/nearest.h"

namespace makar {
namespace {

constexpr uint32_t kBegin = SentenceNgrams::kBegin;
constexpr float kLogOfZero = -99;  // SRILM's logarithm of 0, which <s> gets

float log10f_of(double p) { return p > 0 ? static_cast<float>(std::log10(p)) : kLogOfZero; }

// Builds the model, from the shortest n-grams to the longest.
class Builder {
 public:
  Builder(SentenceNgrams counts, const NgramOptions& options)
      : ngrams_(std::move(counts)),
        options_(options),
        order_(ngrams_.tables.size()),
        probs_(order_),
        backoffs_(order_) {
    for (size_t k = 0; k < order_; ++k) {
      probs_[k].assign(ngrams_.tables[k].size(), 0);
      backoffs_[k].assign(ngrams_.tables[k].size(), 1);
    }
    vocabulary_ = static_cast<double>(ngrams_.words.size() - 1);
  }

  Result<NgramModel> build() {
    if (options_.smoothing == "kneser-ney")
      kneser_ney();
    else if (options_.smoothing == "add-k")
      add_k();
    else
      good_turing_or_katz(options_.smoothing == "katz");
    return finish();
  }

 private:
  bool is_kept(size_t k, uint32_t at) const {
    return k == 0 || k >= options_.prune.size() ||
           options_.prune[k] < static_cast<int64_t>(ngrams_.counts[k][at]);
  }
  // Whether the n-gram is <s> alone, which is never predicted.
  static bool is_begin(size_t k, uint32_t word) { return k == 0 && word == kBegin; }

  // The number of n-grams of one length for each count up to `max`.
  std::vector<uint64_t> count_of_counts(const std::vector<uint64_t>& counts, size_t k, size_t max) const {
    std::vector<uint64_t> out(max + 1, 0);
    for (uint32_t i = 0; i < counts.size(); ++i)
      if (!is_begin(k, i) && counts[i] > 0 && counts[i] <= max) ++out[counts[i]];
    return out;
  }
  // Sums of counts over the last word, by context; one context at length 1.
  std::vector<double> totals(const std::vector<uint64_t>& counts, size_t k) const {
    std::vector<double> out(k == 0 ? 1 : ngrams_.tables[k - 1].size(), 0);
    for (uint32_t i = 0; i < counts.size(); ++i)
      if (!is_begin(k, i)) out[context(k, i)] += static_cast<double>(counts[i]);
    return out;
  }
  uint32_t context(size_t k, uint32_t at) const { return k == 0 ? 0 : ngrams_.tables[k].prefix(at); }

  // The n-gram without its first word, for all n-grams of one length. It always exists, because it
  // occurs in the same text.
  std::vector<uint32_t> suffixes(size_t k, const std::vector<uint32_t>& shorter) const {
    const NgramTable& table = ngrams_.tables[k];
    std::vector<uint32_t> out(table.size());
    for (uint32_t i = 0; i < table.size(); ++i) {
      if (k == 1)
        out[i] = table.word(i);
      else
        out[i] = ngrams_.tables[k - 1].find(shorter[table.prefix(i)], table.word(i));
      check(out[i] != NgramTable::kNone, "the end of an n-gram is an n-gram");
    }
    return out;
  }

  void uniform_below(size_t k) {
    for (size_t i = 0; i < k; ++i) std::fill(probs_[i].begin(), probs_[i].end(), 1 / vocabulary_);
  }

  void add_k() {
    const size_t k = order_ - 1;
    uniform_below(k);
    const auto total = totals(ngrams_.counts[k], k);
    for (uint32_t i = 0; i < probs_[k].size(); ++i)
      probs_[k][i] = (static_cast<double>(ngrams_.counts[k][i]) + options_.k) /
                     (total[context(k, i)] + options_.k * vocabulary_);
    if (k > 0)
      for (uint32_t h = 0; h < total.size(); ++h)
        backoffs_[k - 1][h] = options_.k * vocabulary_ / (total[h] + options_.k * vocabulary_);
  }

  void good_turing_or_katz(bool katz) {
    std::vector<uint32_t> suffix;
    const size_t first = katz ? 0 : order_ - 1;
    if (!katz) uniform_below(first);
    for (size_t k = 0; k < order_; ++k) {
      if (k > 0 && katz) suffix = suffixes(k, suffix);
      if (k >= first) discount_level(k, katz, suffix);
    }
  }

  void discount_level(size_t k, bool katz, const std::vector<uint32_t>& suffix) {
    const auto& counts = ngrams_.counts[k];
    const auto histogram = count_of_counts(counts, k, static_cast<size_t>(options_.max_discounted) + 1);
    std::vector<double> ratio(static_cast<size_t>(options_.max_discounted) + 1, 1);
    if (katz) {
      ratio = katz_discounts(histogram, options_.max_discounted);
    } else {
      const auto adjusted = good_turing(histogram, options_.max_discounted);
      for (size_t c = 1; c < ratio.size(); ++c)
        ratio[c] = std::min(1.0, adjusted[c] / static_cast<double>(c));
    }
    const auto discounted = [&](uint32_t i) {
      const uint64_t c = counts[i];
      return static_cast<double>(c) * (c < ratio.size() ? ratio[c] : 1.0);
    };
    auto total = totals(counts, k);
    std::vector<double> seen_sum(total.size(), 0), seen_lower_sum(total.size(), 0);
    const auto counted = [&](uint32_t i) { return !is_begin(k, i) && counts[i] > 0 && is_kept(k, i); };
    for (uint32_t i = 0; i < counts.size(); ++i)
      if (counted(i)) {
        seen_sum[context(k, i)] += discounted(i);
        if (k > 0) seen_lower_sum[context(k, i)] += katz ? lower_prob(k - 1, suffix[i]) : 1 / vocabulary_;
      }
    // A context without discounts would leave nothing for unseen words: one unseen event is added to it.
    for (size_t h = 0; h < total.size(); ++h)
      if (total[h] - seen_sum[h] < 1e-9 * (total[h] + 1)) total[h] = seen_sum[h] + 1;
    for (uint32_t i = 0; i < counts.size(); ++i)
      if (counted(i)) probs_[k][i] = discounted(i) / total[context(k, i)];
    if (k == 0) {
      double unseen = 0, left = 1 - seen_sum[0] / total[0];
      for (uint32_t i = 0; i < counts.size(); ++i) unseen += !is_begin(0, i) && counts[i] == 0;
      for (uint32_t i = 0; i < counts.size(); ++i)
        if (!is_begin(0, i) && counts[i] == 0) probs_[0][i] = left / unseen;
      return;
    }
    for (size_t h = 0; h < total.size(); ++h) {
      if (seen_sum[h] == 0) continue;
      // If all words were seen after the context, the weight is never used.
      const double below = 1 - seen_lower_sum[h];
      backoffs_[k - 1][h] = below > 1e-9 ? (1 - seen_sum[h] / total[h]) / below : 0;
    }
  }

  // Counts of shorter n-grams become the number of different words before them, except for n-grams that begin
  // with <s>, which nothing precedes.
  std::vector<uint64_t> adjusted_counts(size_t k, const std::vector<uint32_t>& longer_suffix,
                                        const std::vector<bool>& after_begin) const {
    if (k + 1 == order_) return ngrams_.counts[k];
    std::vector<uint64_t> out(ngrams_.tables[k].size(), 0);
    for (const uint32_t s : longer_suffix) ++out[s];
    for (uint32_t i = 0; i < out.size(); ++i)
      if (after_begin[i]) out[i] = k == 0 ? 0 : ngrams_.counts[k][i];
    return out;
  }

  void kneser_ney() {
    std::vector<std::vector<uint32_t>> suffix(order_);
    std::vector<std::vector<bool>> after_begin(order_);
    for (size_t k = 0; k < order_; ++k) {
      if (k > 0) suffix[k] = suffixes(k, suffix[k - 1]);
      after_begin[k].resize(ngrams_.tables[k].size());
      for (uint32_t i = 0; i < after_begin[k].size(); ++i)
        after_begin[k][i] = k == 0 ? i == kBegin : after_begin[k - 1][ngrams_.tables[k].prefix(i)];
    }
    for (size_t k = 0; k < order_; ++k) {
      const auto counts =
          adjusted_counts(k, k + 1 < order_ ? suffix[k + 1] : std::vector<uint32_t>{}, after_begin[k]);
      interpolate(k, counts, suffix[k]);
    }
  }

  void interpolate(size_t k, const std::vector<uint64_t>& counts, const std::vector<uint32_t>& suffix) {
    auto discount = kneser_ney_discounts(count_of_counts(counts, k, 4));
    if (!discount) {
      discount = {0, 0.5, 1, 1.5};
      options_.warn(fmt::format(
          "{}-grams: too few different counts to estimate the discounts; using 0.5, 1 and 1.5", k + 1));
    }
    const auto discount_of = [&](uint64_t c) { return (*discount)[std::min<uint64_t>(c, 3)]; };
    const auto total = totals(counts, k);
    std::vector<double> left(total.size(), 0);
    for (uint32_t i = 0; i < counts.size(); ++i)
      if (!is_begin(k, i))
        left[context(k, i)] += is_kept(k, i) ? discount_of(counts[i]) : static_cast<double>(counts[i]);
    for (uint32_t i = 0; i < counts.size(); ++i) {
      if (is_begin(k, i) || !is_kept(k, i)) continue;
      const uint32_t h = context(k, i);
      const double below = k == 0 ? 1 / vocabulary_ : lower_prob(k - 1, suffix[i]);
      const double discounted =
          counts[i] > 0 ? (static_cast<double>(counts[i]) - discount_of(counts[i])) / total[h] : 0;
      probs_[k][i] = discounted + (total[h] > 0 ? left[h] / total[h] : 1) * below;
    }
    if (k > 0)
      for (size_t h = 0; h < total.size(); ++h)
        if (total[h] > 0) backoffs_[k - 1][h] = left[h] / total[h];
  }

  // The probability of a shorter n-gram, which may have been dropped.
  double lower_prob(size_t k, uint32_t at) const {
    if (is_kept(k, at)) return probs_[k][at];
    check(k > 0, "single words are never pruned");
    return backoffs_[k - 1][ngrams_.tables[k].prefix(at)] * lower_prob(k - 1, suffix_of(k, at));
  }
  // Slow: only for dropped n-grams.
  uint32_t suffix_of(size_t k, uint32_t at) const {
    std::vector<uint32_t> words;
    for (size_t i = k; i > 0; at = ngrams_.tables[i].prefix(at), --i)
      words.push_back(ngrams_.tables[i].word(at));
    uint32_t out = words.back();
    for (size_t i = 1; i < words.size(); ++i) out = ngrams_.tables[i].find(out, words[words.size() - 1 - i]);
    return out;
  }

  // Moves the kept n-grams into the model, with new numbers.
  Result<NgramModel> finish() {
    std::vector<NgramLevel> levels(order_);
    std::vector<uint32_t> new_ids;
    for (size_t k = 0; k < order_; ++k) {
      std::vector<uint32_t> next(ngrams_.tables[k].size(), NgramTable::kNone);
      NgramLevel& level = levels[k];
      for (uint32_t i = 0; i < next.size(); ++i) {
        if (!is_kept(k, i)) continue;
        const uint32_t prefix = k == 0 ? 0 : new_ids[ngrams_.tables[k].prefix(i)];
        if (prefix == NgramTable::kNone) continue;
        next[i] = level.table.add(prefix, k == 0 ? i : ngrams_.tables[k].word(i));
        level.log_prob.push_back(is_begin(k, i) ? kLogOfZero : log10f_of(probs_[k][i]));
        level.log_backoff.push_back(k + 1 < order_ ? log10f_of(backoffs_[k][i]) : 0);
      }
      new_ids = std::move(next);
    }
    while (levels.size() > 1 && levels.back().table.size() == 0) levels.pop_back();
    return NgramModel::make(std::move(ngrams_.words), std::move(levels), "n-grams");
  }

  SentenceNgrams ngrams_;
  const NgramOptions& options_;
  size_t order_;
  double vocabulary_ = 0;
  std::vector<std::vector<double>> probs_, backoffs_;
};

}  // namespace

Status check(const NgramOptions& o, int order) {
  const std::vector<std::string> known = {"kneser-ney", "katz", "good-turing", "add-k"};
  if (std::find(known.begin(), known.end(), o.smoothing) == known.end())
    return error_at("`smoothing`", "must be one of {}, got '{}'{}", fmt::join(known, ", "), o.smoothing,
                    did_you_mean(o.smoothing, known));
  if (!(o.k > 0 && o.k <= 1e6)) return error_at("`k`", "must be above 0 and at most 1e6, got {}", o.k);
  if (o.max_discounted < 1 || o.max_discounted > 100)
    return error_at("`gt_max`", "must be 1 to 100, got {}", o.max_discounted);
  for (size_t i = 0; i < o.prune.size(); ++i)
    if (o.prune[i] < 0 || (i > 0 && o.prune[i] < o.prune[i - 1]) || (i == 0 && o.prune[i] != 0))
      return error_at("`prune`", "counts start with 0 (words) and do not decrease, such as 0,0,1");
  if (o.prune.size() > static_cast<size_t>(order))
    return error_at("`prune`", "has {} counts for n-grams of up to {} words", o.prune.size(), order);
  if (!o.prune.empty() && o.smoothing == "add-k")
    return error_at("`prune`", "cannot be combined with add-k smoothing");
  return Done{};
}

std::vector<double> good_turing(const std::vector<uint64_t>& n, int64_t max) {
  std::vector<double> out(static_cast<size_t>(max) + 1, 0);
  for (size_t c = 1; c < out.size(); ++c) {
    const bool known = c + 1 < n.size() && n[c] > 0 && n[c + 1] > 0;
    out[c] = known ? static_cast<double>(c + 1) * static_cast<double>(n[c + 1]) / static_cast<double>(n[c])
                   : static_cast<double>(c);
  }
  return out;
}

std::vector<double> katz_discounts(const std::vector<uint64_t>& n, int64_t max) {
  std::vector<double> out(static_cast<size_t>(max) + 1, 1);
  const auto count = [&](int64_t c) {
    return c < static_cast<int64_t>(n.size()) ? static_cast<double>(n[static_cast<size_t>(c)]) : 0.0;
  };
  if (count(1) == 0) return out;
  const double common = static_cast<double>(max + 1) * count(max + 1) / count(1);
  for (int64_t c = 1; c <= max; ++c) {
    if (count(c) == 0 || common >= 1) continue;
    const double ratio = static_cast<double>(c + 1) * count(c + 1) / count(c) / static_cast<double>(c);
    const double d = (ratio - common) / (1 - common);
    if (d > 0 && d <= 1) out[static_cast<size_t>(c)] = d;
  }
  return out;
}

std::optional<std::array<double, 4>> kneser_ney_discounts(const std::vector<uint64_t>& n) {
  for (size_t c = 1; c <= 3; ++c)
    if (c + 1 >= n.size() || n[c] == 0) return std::nullopt;
  const auto count = [&](size_t c) { return static_cast<double>(n[c]); };
  const double y = count(1) / (count(1) + 2 * count(2));
  std::array<double, 4> out = {};
  for (size_t c = 1; c <= 3; ++c) {
    out[c] = static_cast<double>(c) - static_cast<double>(c + 1) * y * count(c + 1) / count(c);
    if (out[c] < 0 || out[c] > static_cast<double>(c)) return std::nullopt;
  }
  return out;
}

Result<NgramModel> train_ngrams(SentenceNgrams counts, const NgramOptions& options) {
  MAKAR_RETURN_IF_ERROR(check(options, counts.order()));
  if (counts.sentences == 0) return error_at("n-grams", "there are no sentences to count");
  return Builder(std::move(counts), options).build();
}

}  // namespace makar
