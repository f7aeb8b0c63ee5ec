#include "metrics/bleu.h"

#include <algorithm>
#include <cmath>

namespace makar {
namespace {

double smooth_value(const BleuOptions& o) {
  return o.smooth_value >= 0 ? o.smooth_value : o.smoothing == Smoothing::kFloor ? 0.1 : 1.0;
}

// The reference length nearest to that of the hypothesis; of two equally near ones, the shorter.
size_t closest_length(size_t length, std::span<const BleuText* const> references) {
  size_t best = 0, distance = SIZE_MAX;
  for (const BleuText* r : references) {
    const size_t d = r->words > length ? r->words - length : length - r->words;
    if (d < distance || (d == distance && r->words < best)) best = r->words, distance = d;
  }
  return best;
}

Json bleu_details(std::span<const double> sums, const BleuOptions& o) {
  const BleuScore score = bleu_score(sums, o);
  return {{"precisions", score.precisions},
          {"bp", score.brevity},
          {"ratio", sums[1] > 0 ? sums[0] / sums[1] : 0},
          {"hyp_len", static_cast<int64_t>(sums[0])},
          {"ref_len", static_cast<int64_t>(sums[1])}};
}

}  // namespace

Result<Smoothing> parse_smoothing(const std::string& name, const std::string& place) {
  if (name == "none") return Smoothing::kNone;
  if (name == "floor") return Smoothing::kFloor;
  if (name == "add-k") return Smoothing::kAddK;
  if (name == "exp") return Smoothing::kExp;
  return error_at(place, "expected none, floor, add-k or exp, got '{}'", name);
}

BleuText prepare_bleu(const std::string& text, const BleuOptions& o) {
  const std::string stripped = without_end_blanks(text);
  const WordList words = split_words(o.words, o.lowercase ? lowered(stripped) : stripped);
  BleuText out{words.size()};
  for (int64_t n = 1; n <= o.order; ++n) out.counts.push_back(count_ngrams(words, static_cast<size_t>(n)));
  return out;
}

Statistics bleu_statistics(const BleuText& hyp, std::span<const BleuText* const> references) {
  const size_t order = hyp.counts.size();
  Statistics out(2 + 2 * order);
  out[0] = static_cast<double>(hyp.words);
  out[1] = static_cast<double>(closest_length(hyp.words, references));
  for (size_t n = 0; n < order; ++n) {
    int64_t matches = 0;
    for (const auto& [gram, times] : hyp.counts[n]) {
      int64_t max = 0;
      for (const BleuText* r : references)
        if (const auto found = r->counts[n].find(gram); found != r->counts[n].end())
          max = std::max(max, found->second);
      matches += std::min(times, max);
    }
    out[2 + n] = static_cast<double>(matches);
    out[2 + order + n] = static_cast<double>(ngram_total(hyp.words, n + 1));
  }
  return out;
}

BleuScore bleu_score(std::span<const double> sums, const BleuOptions& o) {
  const size_t order = (sums.size() - 2) / 2;
  BleuScore out{0, std::vector<double>(order), 1};
  const double hyp_length = sums[0], ref_length = sums[1];
  if (hyp_length < ref_length) out.brevity = hyp_length > 0 ? std::exp(1 - ref_length / hyp_length) : 0;
  if (std::all_of(sums.begin() + 2, sums.begin() + 2 + static_cast<ptrdiff_t>(order),
                  [](double matches) { return matches == 0; }))
    return out;
  double divisor = 1, logs = 0;
  size_t orders = order, used_orders = 0;
  for (size_t n = 0; n < order; ++n) {
    const double k = o.smoothing == Smoothing::kAddK && n > 0 ? smooth_value(o) : 0;
    const double matches = sums[2 + n] + k, total = sums[2 + order + n] + k;
    if (total == 0) break;
    if (o.effective_order) orders = n + 1;
    double smoothed = matches;
    if (matches == 0 && o.smoothing == Smoothing::kExp) smoothed = 1 / (divisor *= 2);
    if (matches == 0 && o.smoothing == Smoothing::kFloor) smoothed = smooth_value(o);
    out.precisions[n] = 100 * smoothed / total;
    logs += std::log(out.precisions[n]), ++used_orders;
  }
  if (used_orders >= orders) out.score = out.brevity * std::exp(logs / static_cast<double>(orders));
  return out;
}

std::string bleu_signature(const BleuOptions& o, const std::string& references) {
  const std::string smooth = o.smoothing == Smoothing::kNone  ? "none"
                             : o.smoothing == Smoothing::kExp ? "exp"
                             : o.smoothing == Smoothing::kFloor
                                 ? fmt::format("floor[{:.2f}]", smooth_value(o))
                                 : fmt::format("add-k[{:.2f}]", smooth_value(o));
  return fmt::format("nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}|version:{}", references,
                     o.lowercase ? "lc" : "mixed", o.effective_order ? "yes" : "no", name(o.words), smooth,
                     kSacrebleuVersion);
}

Result<Evaluation> evaluate_bleu(const Segments& segments, const BleuOptions& o) {
  std::vector<Statistics> units;
  for (const Segment& s : segments) {
    const BleuText hyp = prepare_bleu(s.hypothesis, o);
    std::vector<BleuText> texts;
    for (const std::string& r : s.references) texts.push_back(prepare_bleu(r, o));
    std::vector<const BleuText*> references;
    for (const BleuText& t : texts) references.push_back(&t);
    units.push_back(bleu_statistics(hyp, references));
  }
  const Statistics sums = sum_of(units);
  const auto score = [o](std::span<const double> all) { return bleu_score(all, o).score; };
  Evaluation out =
      evaluation_of_sums("BLEU", bleu_signature(o, reference_count(segments)), std::move(units), score);
  out.details = bleu_details(sums, o);
  return out;
}

Evaluation evaluate_self_bleu(const std::vector<std::string>& texts, const BleuOptions& o) {
  // For each n-gram the largest count, the text that has it, and the largest count in the other texts: the
  // clipped matches of every text with all the others then take one pass.
  struct LargestCounts {
    int64_t first = 0, second = 0;
    size_t text = 0;
  };
  std::vector<std::unordered_map<std::string, LargestCounts>> largest(static_cast<size_t>(o.order));
  std::vector<BleuText> prepared;
  std::vector<size_t> lengths;
  for (size_t i = 0; i < texts.size(); ++i) {
    prepared.push_back(prepare_bleu(texts[i], o));
    lengths.push_back(prepared[i].words);
    for (size_t n = 0; n < largest.size(); ++n)
      for (const auto& [gram, times] : prepared[i].counts[n]) {
        LargestCounts& m = largest[n][gram];
        if (times > m.first)
          m = {times, m.first, i};
        else
          m.second = std::max(m.second, times);
      }
  }
  std::sort(lengths.begin(), lengths.end());
  std::vector<double> unit_scores;
  for (size_t i = 0; i < texts.size() && texts.size() > 1; ++i) {
    const BleuText& hyp = prepared[i];
    Statistics sums(2 + 2 * largest.size());
    sums[0] = static_cast<double>(hyp.words);
    // The nearest length of another text: a neighbour of this one in sorted order.
    const auto position = std::lower_bound(lengths.begin(), lengths.end(), hyp.words);
    const bool shorter = position != lengths.begin(), longer = position + 1 != lengths.end();
    const size_t nearest = !longer || (shorter && hyp.words - position[-1] <= position[1] - hyp.words &&
                                       position[1] != hyp.words)
                               ? position[-1]
                               : position[1];
    sums[1] = static_cast<double>(nearest);
    for (size_t n = 0; n < largest.size(); ++n) {
      int64_t matches = 0;
      for (const auto& [gram, times] : hyp.counts[n]) {
        const LargestCounts& m = largest[n].at(gram);
        matches += std::min(times, m.text == i ? m.second : m.first);
      }
      sums[2 + n] = static_cast<double>(matches);
      sums[2 + largest.size() + n] = static_cast<double>(ngram_total(hyp.words, n + 1));
    }
    unit_scores.push_back(bleu_score(sums, o).score);
  }
  return evaluation_of_mean("self-BLEU", bleu_signature(o, "others"), std::move(unit_scores));
}

}  // namespace makar
