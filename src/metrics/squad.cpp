#include "metrics/squad.h"

#include <algorithm>

#include "metrics/ngrams.h"
#include "text/unicode.h"

namespace makar {

WordList squad_words(const std::string& answer) {
  std::u32string text;
  for (const char32_t c : code_points(lowered(answer)))
    if (!is_ascii_punctuation(c)) text += c;
  // Articles are whole words between characters that are not letters, digits or underscores.
  std::string without_articles, word;
  const auto end_word = [&] {
    without_articles += word == "a" || word == "an" || word == "the" ? " " : word;
    word.clear();
  };
  for (const char32_t c : text) {
    if (is_word(c)) {
      append_utf8(word, c);
    } else {
      end_word();
      append_utf8(without_articles, c);
    }
  }
  end_word();
  return split_words(without_articles);
}

bool squad_exact(const std::string& answer, const std::string& reference) {
  return squad_words(answer) == squad_words(reference);
}

double squad_f1(const std::string& answer, const std::string& reference) {
  const WordList a = squad_words(answer), b = squad_words(reference);
  if (a.empty() || b.empty()) return a.empty() == b.empty() ? 1 : 0;
  const auto same = static_cast<double>(common_ngrams(count_ngrams(a, 1), count_ngrams(b, 1)));
  return same == 0 ? 0 : 2 * same / static_cast<double>(a.size() + b.size());
}

Result<Evaluation> evaluate_squad(const Segments& segments, bool exact) {
  std::vector<Statistics> units;
  std::vector<bool> correct;
  for (const Segment& s : segments) {
    double match = 0, f1 = 0;
    for (const std::string& r : s.references) {
      match = std::max(match, squad_exact(s.hypothesis, r) ? 1.0 : 0.0);
      f1 = std::max(f1, squad_f1(s.hypothesis, r));
    }
    units.push_back({match, f1, 1});
    correct.push_back(match > 0);
  }
  const Statistics sums = sum_of(units);
  Evaluation out = evaluation_of_sums(
      exact ? "exact_match" : "f1", fmt::format("nrefs:{}|norm:squad", reference_count(segments)),
      std::move(units), [exact](std::span<const double> all) { return 100 * all[exact ? 0 : 1] / all[2]; });
  out.correct = std::move(correct);
  if (!sums.empty())
    out.details = {{"exact_match", 100 * sums[0] / sums[2]}, {"f1", 100 * sums[1] / sums[2]}};
  return out;
}

}  // namespace makar
