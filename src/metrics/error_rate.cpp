#include "metrics/error_rate.h"

#include <cmath>

#include "base/replace.h"
#include "base/utf8.h"
#include "metrics/subsequence.h"
#include "metrics/word_ids.h"
#include "metrics/words.h"

namespace makar {
namespace {

// Characters include blanks: jiwer and torchmetrics count them.
std::vector<uint32_t> units_of(const std::string& text, ErrorUnit unit, bool lowercase, WordIds& ids) {
  const std::string cased = lowercase ? lowered(text) : text;
  if (unit == ErrorUnit::kWords) return ids.of(split_words(cased));
  const std::u32string codes = code_points(cased);
  return {codes.begin(), codes.end()};
}

struct EedCosts {
  double jump = 2.0, coverage = 0.3, deletion = 0.2, insertion = 1.0;
};

bool decimal_digit(char c) { return c >= '0' && c <= '9'; }

// The reference implementation's English rules: punctuation is split off, except in numbers and some
// abbreviations.
std::u32string eed_text(const std::string& text) {
  std::string spaced;
  for (const char c : without_end_blanks(text)) {
    if (c == '.' || c == '!' || c == '?' || c == ',') spaced += ' ';
    spaced += c;
  }
  std::string single;  // runs of blanks become one space
  bool blank = false;
  for (size_t at = 0; at < spaced.size();) {
    const CodePoint c = decode_utf8(spaced, at);
    if (!is_blank(c.code)) single.append(spaced, at, c.size);
    if (is_blank(c.code) && !blank) single += ' ';
    blank = is_blank(c.code), at += c.size;
  }
  std::string joined;  // "1 . 5" becomes "1.5"
  for (size_t i = 0; i < single.size(); ++i) {
    joined += single[i];
    if (decimal_digit(single[i]) && i + 4 < single.size() && single[i + 1] == ' ' &&
        (single[i + 2] == '.' || single[i + 2] == ',') && single[i + 3] == ' ' &&
        decimal_digit(single[i + 4])) {
      joined += single[i + 2], joined += single[i + 4];
      i += 4;
    }
  }
  std::string titles;  // "Mr ." becomes "Mr."; the rule replaces any character after the blank
  for (size_t i = 0; i < joined.size();) {
    size_t length = 0;
    for (const char* title : {"Dr", "Jr", "Prof", "Rev", "Gen", "Mr", "Mt", "Mrs", "Ms"}) {
      const std::string word = std::string(title) + " ";
      if (length == 0 && joined.compare(i, word.size(), word) == 0 && i + word.size() < joined.size())
        length = word.size() - 1;
    }
    if (length == 0) {
      titles += joined[i++];
      continue;
    }
    titles.append(joined, i, length) += '.';
    i += length + 1;
    i += decode_utf8(joined, i).size;
  }
  titles = replace_all(titles, "e . g .", "e.g.");
  titles = replace_all(titles, "i . e .", "i.e.");
  titles = replace_all(titles, "U . S .", "U.S.");
  return code_points(" " + titles + " ");
}

// A negative value if the work budget is spent.
double eed(const std::u32string& hyp, const std::u32string& ref, WorkBudget& work) {
  constexpr EedCosts kCosts;
  std::vector<int64_t> visits(hyp.size() + 1, -1);
  std::vector<double> row(hyp.size() + 1, 1.0), next(hyp.size() + 1);
  row[0] = 0;
  for (const char32_t c : ref) {
    if (!work.spend(table_work(hyp.size()) * 4)) return -1;  // a cell costs 4 times that of edit_distance
    next[0] = row[0] + 1;
    size_t min = 0;
    for (size_t i = 1; i <= hyp.size(); ++i) {
      next[i] = std::min({next[i - 1] + kCosts.deletion, row[i - 1] + (hyp[i - 1] == c ? 0.0 : 1.0),
                          row[i] + kCosts.insertion});
      if (next[i] < next[min]) min = i;
    }
    ++visits[min];
    if (c == U' ') {
      const double jump = kCosts.jump + next[min];
      for (double& cost : next) cost = std::min(cost, jump);
    }
    std::swap(row, next);
  }
  double coverage = 0;
  for (const int64_t times : visits) coverage += times >= 0 ? static_cast<double>(times) : 1.0;
  coverage *= kCosts.coverage;
  return std::min(1.0, (row.back() + coverage) / (static_cast<double>(ref.size()) + coverage));
}

}  // namespace

Result<Evaluation> evaluate_error_rate(const Segments& segments, ErrorUnit unit, bool lowercase) {
  std::vector<Statistics> units;
  for (size_t i = 0; i < segments.size(); ++i) {
    WorkBudget work(kMaxSegmentWork);
    WordIds ids;
    const auto hyp = units_of(segments[i].hypothesis, unit, lowercase, ids);
    Statistics best;
    for (const std::string& text : segments[i].references) {
      const auto ref = units_of(text, unit, lowercase, ids);
      const int64_t edits = edit_distance(hyp, ref, &work);
      if (edits < 0) return work.error(segment_place(i));
      const Statistics one = {static_cast<double>(edits), static_cast<double>(ref.size())};
      // Compared as rates; an empty reference has no rate and loses to any other.
      if (best.empty() || one[0] * best[1] < best[0] * one[1]) best = one;
    }
    units.push_back(std::move(best));
  }
  const auto rate = [](std::span<const double> sums) {
    return sums[1] > 0 ? sums[0] / sums[1] : sums[0] > 0 ? 1.0 : 0.0;
  };
  const Statistics sums = sum_of(units);
  const bool words = unit == ErrorUnit::kWords;
  Evaluation out = evaluation_of_sums(words ? "WER" : "CER",
                                      fmt::format("nrefs:{}|case:{}|unit:{}", reference_count(segments),
                                                  lowercase ? "lc" : "mixed", words ? "word" : "character"),
                                      std::move(units), rate);
  out.lower_is_better = true;
  if (!sums.empty()) out.details = {{"edits", sums[0]}, {"ref_len", sums[1]}};
  return out;
}

Result<Evaluation> evaluate_eed(const Segments& segments) {
  std::vector<double> unit_scores;
  for (size_t i = 0; i < segments.size(); ++i) {
    WorkBudget work(kMaxSegmentWork);
    const std::u32string hyp = eed_text(segments[i].hypothesis);
    double best = INFINITY;
    for (const std::string& text : segments[i].references) {
      const double one = eed(hyp, eed_text(text), work);
      if (one < 0) return work.error(segment_place(i));
      best = std::min(best, one);
    }
    unit_scores.push_back(best);
  }
  Evaluation out = evaluation_of_mean(
      "EED", fmt::format("nrefs:{}|lang:en|alpha:2|rho:0.3|del:0.2|ins:1", reference_count(segments)),
      std::move(unit_scores));
  out.lower_is_better = true;
  return out;
}

}  // namespace makar
