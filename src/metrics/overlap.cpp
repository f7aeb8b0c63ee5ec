#include "metrics/overlap.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"

namespace makar {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool stop(char c) { return c == '.' || c == ','; }
bool symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

// Inserts spaces around every matching pair of adjacent characters, left to right; matches do not overlap.
template <class First, class Second>
std::string insert_spaces(const std::string& text, const First& first, const Second& second,
                          const char* before, const char* between, const char* after) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && first(text[i]) && second(text[i + 1])) {
      out += before;
      out += text[i];
      out += between;
      out += text[i + 1];
      out += after;
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < text.size();) {
    while (i < text.size() && space(text[i])) ++i;
    size_t end = i;
    while (end < text.size() && !space(text[end])) ++end;
    if (end > i) words.push_back(text.substr(i, end - i));
    i = end;
  }
  return words;
}

// UTF-8 characters without spaces; a byte that fits nowhere is a character.
std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) {
    if (space(c)) continue;
    const bool continuation = is_utf8_continuation(c);
    if (continuation && !out.empty() && out.back().size() < 4)
      out.back() += c;
    else
      out.emplace_back(1, c);
  }
  return out;
}

using Counts = std::unordered_map<std::string, int64_t>;

Counts count(const std::vector<std::string>& units, size_t n) {
  Counts out;
  for (size_t i = 0; i + n <= units.size(); ++i) {
    std::string gram;
    for (size_t j = i; j < i + n; ++j) gram += units[j] + '\n';
    ++out[gram];
  }
  return out;
}

int64_t common(const Counts& a, const Counts& b) {
  int64_t sum = 0;
  for (const auto& [gram, times] : a)
    if (const auto other = b.find(gram); other != b.end()) sum += std::min(times, other->second);
  return sum;
}

// The number of n-grams of a text.
double grams(const OverlapText& text, size_t n) {
  return text.units.size() < n ? 0.0 : static_cast<double>(text.units.size() - n + 1);
}

double bleu(const OverlapText& hyp, const OverlapText& ref) {
  double logs = 0, smooth = 1;
  int64_t orders = 0;
  for (size_t n = 1; n <= 4 && grams(hyp, n) > 0; ++n) {
    const auto same = static_cast<double>(common(hyp.counts[n - 1], ref.counts[n - 1]));
    if (n == 1 && same == 0) return 0;
    if (same == 0) smooth *= 2;
    logs += std::log((same > 0 ? same : 1 / smooth) / grams(hyp, n));
    ++orders;
  }
  if (orders == 0) return 0;
  const double brevity = 1 - static_cast<double>(ref.units.size()) / static_cast<double>(hyp.units.size());
  return std::exp(std::min(brevity, 0.0) + logs / static_cast<double>(orders));
}

double f_score(double precision, double recall, double beta) {
  const double b = beta * beta, low = b * precision + recall;
  return low > 0 ? (1 + b) * precision * recall / low : 0;
}

double chrf(const OverlapText& hyp, const OverlapText& ref) {
  double precision = 0, recall = 0, orders = 0;
  for (size_t n = 1; n <= 6; ++n) {
    if (grams(hyp, n) == 0 || grams(ref, n) == 0) continue;
    const auto same = static_cast<double>(common(hyp.counts[n - 1], ref.counts[n - 1]));
    precision += same / grams(hyp, n), recall += same / grams(ref, n), orders += 1;
  }
  return orders > 0 ? f_score(precision / orders, recall / orders, 2) : 0;
}

double of_lengths(double same, const OverlapText& hyp, const OverlapText& ref) {
  if (hyp.units.empty() || ref.units.empty()) return 0;
  return f_score(same / static_cast<double>(hyp.units.size()), same / static_cast<double>(ref.units.size()),
                 1);
}

int64_t longest_common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<int64_t> row(b.size() + 1);
  for (const std::string& unit : a) {
    int64_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t above = row[j + 1];
      row[j + 1] = unit == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> words_13a(std::string text) {
  replace_all(text, "<skipped>", ""), replace_all(text, "-\n", ""), replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\""), replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<"), replace_all(text, "&gt;", ">");
  std::string spaced = " ";
  for (const char c : text) symbol(c) ? (spaced += ' ', spaced += c, spaced += ' ') : spaced += c;
  spaced += ' ';
  const auto other = [](char c) { return !digit(c); };
  spaced = insert_spaces(spaced, other, stop, "", " ", " ");
  spaced = insert_spaces(spaced, stop, other, " ", " ", "");
  spaced = insert_spaces(
      spaced, digit, [](char c) { return c == '-'; }, "", " ", " ");
  return split(spaced);
}

Result<Overlap> parse_overlap(const std::string& name, const std::string& place) {
  constexpr std::pair<const char*, Overlap> kNames[] = {{"bleu", Overlap::kBleu},
                                                        {"chrf", Overlap::kChrf},
                                                        {"rouge-l", Overlap::kRougeL},
                                                        {"f1", Overlap::kF1}};
  for (const auto& [known, kind] : kNames)
    if (name == known) return kind;
  return error_at(place, "expected bleu, chrf, rouge-l or f1, got '{}'", name);
}

OverlapText prepare_overlap(Overlap kind, const std::string& text) {
  OverlapText out;
  out.units = kind == Overlap::kChrf ? characters(text) : words_13a(text);
  const size_t orders = kind == Overlap::kChrf   ? 6
                        : kind == Overlap::kBleu ? 4
                        : kind == Overlap::kF1   ? 1
                                                 : 0;
  for (size_t n = 1; n <= orders; ++n) out.counts.push_back(count(out.units, n));
  return out;
}

double overlap(Overlap kind, const OverlapText& hyp, const OverlapText& ref) {
  switch (kind) {
    case Overlap::kBleu:
      return bleu(hyp, ref);
    case Overlap::kChrf:
      return chrf(hyp, ref);
    case Overlap::kRougeL:
      return of_lengths(static_cast<double>(longest_common(hyp.units, ref.units)), hyp, ref);
    case Overlap::kF1:
      return of_lengths(static_cast<double>(common(hyp.counts[0], ref.counts[0])), hyp, ref);
  }
  return 0;
}

}  // namespace makar
