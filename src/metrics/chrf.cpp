#include "metrics/chrf.h"

#include "metrics/words.h"
#include "text/unicode.h"

namespace makar {
namespace {

// Separates one punctuation mark from the end of a word, or else from its beginning.
WordList words_and_marks(const std::string& text) {
  WordList out;
  for (const std::string& word : split_words(text)) {
    const bool single = word.size() == utf8_size(word[0]);
    const auto mark = [](char c) { return is_ascii_punctuation(static_cast<unsigned char>(c)); };
    if (!single && mark(word.back())) {
      out.push_back(word.substr(0, word.size() - 1)), out.push_back(word.substr(word.size() - 1));
    } else if (!single && mark(word[0])) {
      out.push_back(word.substr(0, 1)), out.push_back(word.substr(1));
    } else {
      out.push_back(word);
    }
  }
  return out;
}

double count_of(const NgramCounts& counts) {
  int64_t sum = 0;
  for (const auto& [gram, times] : counts) sum += times;
  return static_cast<double>(sum);
}

std::string chrf_signature(const ChrfOptions& o, const std::string& references) {
  return fmt::format("nrefs:{}|case:{}|eff:{}|nc:{}|nw:{}|space:{}|version:{}", references,
                     o.lowercase ? "lc" : "mixed", o.smooth ? "no" : "yes", o.characters, o.words,
                     o.whitespace ? "yes" : "no", kSacrebleuVersion);
}

}  // namespace

std::vector<NgramCounts> prepare_chrf(const std::string& text, const ChrfOptions& o) {
  const std::string cased = o.lowercase ? lowered(text) : text;
  WordList units;
  if (o.whitespace)
    for (const char32_t c : code_points(cased)) units.push_back(utf8(c));
  else
    units = characters(cased);
  std::vector<NgramCounts> out;
  for (int64_t n = 1; n <= o.characters; ++n) out.push_back(count_ngrams(units, static_cast<size_t>(n)));
  if (o.words == 0) return out;
  const WordList words = words_and_marks(cased);
  for (int64_t n = 1; n <= o.words; ++n) out.push_back(count_ngrams(words, static_cast<size_t>(n)));
  return out;
}

Statistics chrf_statistics(const std::vector<NgramCounts>& hyp, const std::vector<NgramCounts>& ref) {
  Statistics out;
  for (size_t n = 0; n < hyp.size(); ++n) {
    out.push_back(ref[n].empty() ? 0 : count_of(hyp[n]));
    out.push_back(count_of(ref[n]));
    out.push_back(static_cast<double>(common_ngrams(hyp[n], ref[n])));
  }
  return out;
}

double chrf_score(std::span<const double> sums, const ChrfOptions& o) {
  constexpr double kTiny = 1e-16;
  const double factor = o.beta * o.beta;
  const auto f = [&](double p, double r) {
    return factor * p + r > 0 ? (1 + factor) * p * r / (factor * p + r) : 0;
  };
  double precision = 0, recall = 0, orders = 0, smoothed = 0;
  for (size_t i = 0; i + 2 < sums.size(); i += 3) {
    const double hyp = sums[i], ref = sums[i + 1], same = sums[i + 2];
    const double p = hyp > 0 ? same / hyp : kTiny, r = ref > 0 ? same / ref : kTiny;
    smoothed += factor * p + r > 0 ? f(p, r) : kTiny;
    if (hyp > 0 && ref > 0) precision += p, recall += r, orders += 1;
  }
  if (o.smooth) return 100 * smoothed / static_cast<double>(o.characters + o.words);
  return orders > 0 ? 100 * f(precision / orders, recall / orders) : 0;
}

Result<Evaluation> evaluate_chrf(const Segments& segments, const ChrfOptions& o) {
  std::vector<Statistics> units;
  for (const Segment& s : segments) {
    const auto hyp = prepare_chrf(s.hypothesis, o);
    Statistics best;
    double best_score = -1;
    for (const std::string& r : s.references) {
      Statistics one = chrf_statistics(hyp, prepare_chrf(r, o));
      const double score = chrf_score(one, o);
      if (score > best_score) best = std::move(one), best_score = score;
    }
    units.push_back(std::move(best));
  }
  const auto score = [o](std::span<const double> all) { return chrf_score(all, o); };
  // "chrF2++": the weight of recall, and a plus for each order of word n-grams.
  const std::string name = fmt::format("chrF{:g}{}", o.beta, std::string(static_cast<size_t>(o.words), '+'));
  return evaluation_of_sums(name, chrf_signature(o, reference_count(segments)), std::move(units), score);
}

}  // namespace makar
