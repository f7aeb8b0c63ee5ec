#include "metrics/rouge.h"

#include <cmath>
#include <optional>

#include "metrics/ngrams.h"
#include "metrics/porter.h"
#include "metrics/stem.h"
#include "metrics/subsequence.h"
#include "metrics/word_ids.h"
#include "metrics/words.h"

namespace makar {
namespace {

// Matches, and the number of units on each side, which bounds the matches.
struct RougeCounts {
  double matches = 0, hyp = 0, ref = 0;
};
using WordNumbers = std::vector<uint32_t>;
struct RougeText {
  WordList words;
  WordNumbers numbers;  // of the words
  std::vector<WordNumbers> sentences;
};

class RougeComparison {
 public:
  RougeComparison(const RougeOptions& options, WorkBudget& work) : o_(options), work_(work) {}

  // False: out of budget.
  bool count(const std::string& kind, const RougeText& hyp, const RougeText& ref, RougeCounts& out) {
    if (kind == "rougeLsum" || (kind == "rougeL" && o_.mode == RougeMode::kRouge155))
      return count_sentences(hyp.sentences, ref.sentences, out);
    if (kind == "rougeW") return count_weighted(hyp.numbers, ref.numbers, out);
    if (kind == "rougeS" || kind == "rougeSU")
      return count_skip_bigrams(hyp.words, ref.words, kind == "rougeSU", out);
    if (kind == "rougeL") {
      const int64_t length = common_subsequence(hyp.numbers, ref.numbers, &work_);
      out = {static_cast<double>(length), static_cast<double>(hyp.words.size()),
             static_cast<double>(ref.words.size())};
      return length >= 0;
    }
    const auto n = static_cast<size_t>(kind[5] - '0');
    out = {static_cast<double>(common_ngrams(count_ngrams(hyp.words, n), count_ngrams(ref.words, n))),
           static_cast<double>(ngram_total(hyp.words.size(), n)),
           static_cast<double>(ngram_total(ref.words.size(), n))};
    return true;
  }

 private:
  // Marks the words of `ref` that are in one longest common subsequence with `hyp`.
  bool mark_common(const WordNumbers& ref, const WordNumbers& hyp, std::vector<bool>& marks) {
    // The whole table is kept for backtracking: 4 bytes per cell.
    if (!work_.spend(table_work((ref.size() + 1) * (hyp.size() + 1)) * 16)) return false;
    const size_t width = hyp.size() + 1;
    std::vector<uint32_t> table((ref.size() + 1) * width);
    for (size_t i = 1; i <= ref.size(); ++i)
      for (size_t j = 1; j <= hyp.size(); ++j)
        table[i * width + j] = ref[i - 1] == hyp[j - 1]
                                   ? table[(i - 1) * width + j - 1] + 1
                                   : std::max(table[(i - 1) * width + j], table[i * width + j - 1]);
    for (size_t i = ref.size(), j = hyp.size(); i > 0 && j > 0;) {
      if (ref[i - 1] == hyp[j - 1])
        marks[i - 1] = true, --i, --j;
      else if (table[i * width + j - 1] > table[(i - 1) * width + j])
        --j;
      else
        --i;
    }
    return true;
  }

  // The union of the common subsequences of each reference sentence with all sentences of the hypothesis; no
  // word counts more often than it occurs on either side.
  bool count_sentences(const std::vector<WordNumbers>& hyp, const std::vector<WordNumbers>& ref,
                       RougeCounts& out) {
    std::unordered_map<uint32_t, int64_t> unmatched_hyp, unmatched_ref;
    for (const WordNumbers& s : hyp)
      for (const uint32_t w : s) ++unmatched_hyp[w], out.hyp += 1;
    for (const WordNumbers& s : ref)
      for (const uint32_t w : s) ++unmatched_ref[w], out.ref += 1;
    for (const WordNumbers& r : ref) {
      std::vector<bool> marks(r.size());
      for (const WordNumbers& h : hyp)
        if (!mark_common(r, h, marks)) return false;
      for (size_t i = 0; i < r.size(); ++i) {
        if (!marks[i] || unmatched_hyp[r[i]] == 0 || unmatched_ref[r[i]] == 0) continue;
        --unmatched_hyp[r[i]], --unmatched_ref[r[i]], out.matches += 1;
      }
    }
    return true;
  }

  // Lin's weighted subsequence: a run of k adjacent matches counts k^weight.
  bool count_weighted(const WordNumbers& hyp, const WordNumbers& ref, RougeCounts& out) {
    const auto f = [&](double k) { return std::pow(k, o_.weight); };
    std::vector<double> gain(std::min(hyp.size(), ref.size()) + 1);  // of the next word of a run of k
    for (size_t k = 0; k < gain.size(); ++k)
      gain[k] = f(static_cast<double>(k) + 1) - f(static_cast<double>(k));
    std::vector<double> score(ref.size() + 1);
    std::vector<uint32_t> run(ref.size() + 1);
    for (const uint32_t word : hyp) {
      if (!work_.spend(table_work(ref.size()) * 4)) return false;
      double diagonal = 0;
      uint32_t diagonal_run = 0;
      for (size_t j = 0; j < ref.size(); ++j) {
        const double above = score[j + 1];
        const uint32_t above_run = run[j + 1];
        if (word == ref[j]) {
          score[j + 1] = diagonal + gain[diagonal_run], run[j + 1] = diagonal_run + 1;
        } else {
          score[j + 1] = std::max(above, score[j]), run[j + 1] = 0;
        }
        diagonal = above, diagonal_run = above_run;
      }
    }
    out = {score.back(), f(static_cast<double>(hyp.size())), f(static_cast<double>(ref.size()))};
    return true;
  }

  bool skip_bigrams(const WordList& words, bool unigrams, NgramCounts& counts, double& total) {
    const size_t max_distance = o_.skip < 0 ? words.size() : static_cast<size_t>(o_.skip) + 1;
    for (size_t i = 0; i < words.size(); ++i) {
      const size_t last =
          std::min(words.size() - 1, max_distance > words.size() ? words.size() : i + max_distance);
      // A pair may be a new entry of the table: it costs as much as 256 cells.
      if (!work_.spend(4 * static_cast<int64_t>(last - i + 1))) return false;
      if (unigrams) ++counts[words[i]], total += 1;
      for (size_t j = i + 1; j <= last; ++j) ++counts[words[i] + '\n' + words[j]], total += 1;
    }
    return true;
  }
  bool count_skip_bigrams(const WordList& hyp, const WordList& ref, bool unigrams, RougeCounts& out) {
    NgramCounts a, b;
    if (!skip_bigrams(hyp, unigrams, a, out.hyp) || !skip_bigrams(ref, unigrams, b, out.ref)) return false;
    out.matches = static_cast<double>(common_ngrams(a, b));
    return true;
  }

  const RougeOptions& o_;
  WorkBudget& work_;
};

struct Prf {
  double precision = 0, recall = 0, f = 0;
};

Prf prf_of(const RougeCounts& c, double power) {
  const auto share = [&](double total) { return total > 0 ? std::pow(c.matches / total, 1 / power) : 0; };
  Prf out{share(c.hyp), share(c.ref)};
  if (out.precision + out.recall > 0) out.f = 2 * out.precision * out.recall / (out.precision + out.recall);
  return out;
}

// Runs of ASCII letters and digits, in lower case.
WordList rouge_words(const std::string& text, const RougeOptions& o, const std::optional<Stemmer>& original) {
  WordList out;
  std::string word;
  const auto end = [&] {
    if (word.empty()) return;
    if (o.stem && word.size() > 3) word = original ? (*original)(word) : porter_stem(word);
    out.push_back(std::move(word)), word.clear();
  };
  for (const char c : lowered(text))
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      word += c;
    else
      end();
  end();
  return out;
}

RougeText prepare_rouge(const std::string& text, const RougeOptions& o,
                        const std::optional<Stemmer>& original, WordIds& ids) {
  RougeText out{rouge_words(text, o, original), {}, {}};
  out.numbers = ids.of(out.words);
  for (size_t at = 0; at <= text.size();) {
    const size_t found = o.separator.empty() ? std::string::npos : text.find(o.separator, at);
    const size_t end = found == std::string::npos ? text.size() : found;
    if (end > at) out.sentences.push_back(ids.of(rouge_words(text.substr(at, end - at), o, original)));
    at = found == std::string::npos ? text.size() + 1 : found + o.separator.size();
  }
  return out;
}

std::string rouge_signature(const RougeOptions& o, const std::string& references) {
  return fmt::format("nrefs:{}|mode:{}|stem:{}|weight:{:g}|skip:{}", references,
                     o.mode == RougeMode::kRouge155 ? "rouge-1.5.5" : "rouge_score",
                     !o.stem                          ? "no"
                     : o.mode == RougeMode::kRouge155 ? "porter"
                                                      : "porter-nltk",
                     o.weight, o.skip < 0 ? "any" : std::to_string(o.skip));
}

}  // namespace

Result<RougeMode> parse_rouge_mode(const std::string& name, const std::string& place) {
  if (name == "rouge_score") return RougeMode::kRougeScore;
  if (name == "rouge-1.5.5" || name == "1.5.5") return RougeMode::kRouge155;
  return error_at(place, "expected rouge_score or rouge-1.5.5, got '{}'", name);
}

bool is_rouge_kind(const std::string& name) {
  if (name.size() == 6 && name.starts_with("rouge") && name[5] >= '1' && name[5] <= '9') return true;
  return name == "rougeL" || name == "rougeLsum" || name == "rougeW" || name == "rougeS" || name == "rougeSU";
}

Result<Evaluation> evaluate_rouge(const Segments& segments, const std::vector<std::string>& kinds,
                                  const RougeOptions& o) {
  std::optional<Stemmer> original;
  if (o.stem && o.mode == RougeMode::kRouge155) {
    MAKAR_TRY(original, Stemmer::open("porter", "ROUGE"));
  }
  std::vector<Statistics> units;
  for (size_t i = 0; i < segments.size(); ++i) {
    WorkBudget work(kMaxSegmentWork);
    RougeComparison comparison(o, work);
    WordIds ids;
    const RougeText hyp = prepare_rouge(segments[i].hypothesis, o, original, ids);
    std::vector<RougeText> references;
    for (const std::string& text : segments[i].references)
      references.push_back(prepare_rouge(text, o, original, ids));
    Statistics unit = {1};
    for (const std::string& kind : kinds) {
      const double power = kind == "rougeW" ? o.weight : 1;
      RougeCounts pooled;
      Prf best;
      for (const RougeText& ref : references) {
        RougeCounts counts;
        if (!comparison.count(kind, hyp, ref, counts)) return work.error(segment_place(i));
        pooled.matches += counts.matches, pooled.hyp += counts.hyp, pooled.ref += counts.ref;
        const Prf one = prf_of(counts, power);
        if (one.f > best.f) best = one;
      }
      if (o.mode == RougeMode::kRouge155) best = prf_of(pooled, power);
      unit.insert(unit.end(), {best.precision, best.recall, best.f});
    }
    units.push_back(std::move(unit));
  }
  const Statistics sums = sum_of(units);
  Json details = Json::object();
  for (size_t k = 0; k < kinds.size() && !sums.empty(); ++k)
    details[kinds[k]] = {{"precision", sums[1 + 3 * k] / sums[0]},
                         {"recall", sums[2 + 3 * k] / sums[0]},
                         {"fmeasure", sums[3 + 3 * k] / sums[0]}};
  Evaluation out =
      evaluation_of_sums(kinds[0], rouge_signature(o, reference_count(segments)), std::move(units),
                         [](std::span<const double> all) { return all[3] / all[0]; });
  out.details = std::move(details);
  return out;
}

}  // namespace makar
