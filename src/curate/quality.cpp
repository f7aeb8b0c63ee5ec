#include "curate/quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>
#include <vector>

#include "base/utf8.h"
#include "curate/clean_text.h"
#include "lexical/corpus.h"
#include "text/hash.h"
#include "text/unicode.h"

namespace makar {
namespace {

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

size_t count_of(std::string_view text, std::string_view what) {
  size_t out = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++out;
  return out;
}

RuleResult fails(const char* rule, const std::string& detail) { return {rule, detail}; }

// Shares of duplicate lines (by number and by characters).
RuleResult repeated_lines(std::string_view text) {
  const auto lines = split_at(text, '\n');
  if (lines.size() < 2) return {};
  std::unordered_set<std::string_view> seen;
  double copies = 0, characters = 0;
  for (const std::string_view line : lines)
    if (!seen.insert(line).second) ++copies, characters += static_cast<double>(line.size());
  if (copies / static_cast<double>(lines.size()) > 0.3)
    return fails("gopher-repeated-lines", fmt::format("{:.2f} of the lines are copies, expected at most 0.30",
                                                      copies / static_cast<double>(lines.size())));
  if (characters / static_cast<double>(text.size()) > 0.2)
    return fails("gopher-repeated-lines",
                 fmt::format("{:.2f} of the text is in copies of lines, expected at most 0.20",
                             characters / static_cast<double>(text.size())));
  return {};
}

// The most frequent n-gram (2 to 4), and all n-grams that occur again (5 to 10), as shares of the characters.
// An n-gram can occur again only where its first n - 1 words do, so that few occurrences remain after the
// first rounds. Grouped by sorting, not in a hash table, so that no text can make it slow by collisions.
RuleResult repeated_ngrams(const std::vector<std::string_view>& words) {
  static constexpr double kMaxTopShare[] = {0.20, 0.18, 0.16},
                          kMaxRepeatedShare[] = {0.15, 0.14, 0.13, 0.12, 0.11, 0.10};
  struct Occurrence {
    uint64_t key;  // of the n-gram that begins here
    uint32_t at;
  };
  std::vector<uint64_t> hashes;
  std::vector<Occurrence> occurrences;
  double characters = 0;
  for (const std::string_view w : words) {
    const uint64_t hash = hash_bytes(w);
    // Folded once more, so that the order of the words matters.
    occurrences.push_back({fold_multiply(hash, 0xE7037ED1A0B428DBu), static_cast<uint32_t>(hashes.size())});
    hashes.push_back(hash), characters += static_cast<double>(w.size());
  }
  if (characters == 0) return {};
  std::vector<uint32_t> repeats;
  for (size_t n = 2; n <= 10 && n <= words.size() && !occurrences.empty(); ++n) {
    std::erase_if(occurrences, [&](const Occurrence& p) { return p.at + n > words.size(); });
    for (Occurrence& p : occurrences)
      p.key = fold_multiply(p.key ^ hashes[p.at + n - 1], 0xE7037ED1A0B428DBu) + n;
    std::sort(occurrences.begin(), occurrences.end(), [](const Occurrence& a, const Occurrence& b) {
      return a.key != b.key ? a.key < b.key : a.at < b.at;
    });
    double top = 0, covered = 0;
    size_t repeated = 0;
    repeats.clear();
    for (size_t from = 0, end = 0; from < occurrences.size(); from = end) {
      while (end < occurrences.size() && occurrences[end].key == occurrences[from].key) ++end;
      if (end - from < 2) continue;
      double size = 0;
      for (size_t i = 0; i < n; ++i) size += static_cast<double>(words[occurrences[from].at + i].size());
      top = std::max(top, size * static_cast<double>(end - from));
      for (size_t i = from; i < end; ++i) {
        if (i > from) repeats.push_back(occurrences[i].at);
        occurrences[repeated++] = occurrences[i];
      }
    }
    occurrences.resize(repeated);
    std::sort(repeats.begin(), repeats.end());
    for (size_t i = 0, past = 0; n > 4 && i < repeats.size(); ++i) {
      for (size_t w = std::max<size_t>(repeats[i], past); w < repeats[i] + n; ++w)
        covered += static_cast<double>(words[w].size());
      past = std::max<size_t>(past, repeats[i] + n);
    }
    const double share = (n <= 4 ? top : covered) / characters,
                 max = n <= 4 ? kMaxTopShare[n - 2] : kMaxRepeatedShare[n - 5];
    if (share > max)
      return fails("gopher-repeated-ngrams",
                   fmt::format("{}-grams that occur again are {:.2f} of the text, expected at most {:.2f}", n,
                               share, max));
  }
  return {};
}

}  // namespace

RuleResult gopher(std::string_view text, const GopherRules& r) {
  WordSplitter splitter({});
  const auto words = splitter.split(text);
  const auto n = static_cast<double>(words.size());
  if (n < r.min_words || n > r.max_words)
    return fails("gopher-words",
                 fmt::format("{} words, expected {} to {}", words.size(), r.min_words, r.max_words));
  double characters = 0, alphabetic = 0;
  static const std::unordered_set<std::string_view> kStopWords = {"the", "be",   "to",   "of",
                                                                  "and", "that", "have", "with"};
  std::unordered_set<std::string_view> stop_words;
  for (const std::string_view word : words) {
    characters += static_cast<double>(count_code_points(word));
    bool has_letter = false;
    for (size_t at = 0; at < word.size() && !has_letter;) {
      const CodePoint c = decode_utf8(word, at);
      has_letter = in(c.code, kLetter), at += c.size;
    }
    alphabetic += has_letter;
    if (word.size() > 4) continue;  // longer than every stop word
    if (const auto found = kStopWords.find(word); found != kStopWords.end()) stop_words.insert(*found);
  }
  if (characters / n < r.min_word_length || characters / n > r.max_word_length)
    return fails("gopher-word-length", fmt::format("words of {:.1f} characters, expected {} to {}",
                                                   characters / n, r.min_word_length, r.max_word_length));
  const double hashes = static_cast<double>(std::count(text.begin(), text.end(), '#')) / n;
  const double dots = static_cast<double>(count_of(text, "...") + count_of(text, "\u2026")) / n;
  if (hashes > r.max_symbols || dots > r.max_symbols)
    return fails("gopher-symbols", fmt::format("{:.2f} symbols per word, expected at most {}",
                                               std::max(hashes, dots), r.max_symbols));
  const auto lines = split_at(text, '\n');
  double bullets = 0, ellipses = 0;
  for (const std::string_view line : lines) {
    const size_t from = line.find_first_not_of(" \t");
    const std::string_view body = from == line.npos ? std::string_view() : line.substr(from);
    bullets += body.starts_with("- ") || body.starts_with("* ") || body.starts_with("\u2022");
    const size_t last = body.find_last_not_of(" \t\r");
    const std::string_view end = last == body.npos ? body : body.substr(0, last + 1);
    ellipses += end.ends_with("...") || end.ends_with("\u2026");
  }
  const double count = static_cast<double>(std::max<size_t>(1, lines.size()));
  if (bullets / count > r.max_bullets)
    return fails("gopher-bullets", fmt::format("{:.2f} of the lines are bullets, expected at most {}",
                                               bullets / count, r.max_bullets));
  if (ellipses / count > r.max_ellipses)
    return fails("gopher-ellipses", fmt::format("{:.2f} of the lines end in an ellipsis, expected at most {}",
                                                ellipses / count, r.max_ellipses));
  if (alphabetic / n < r.min_alphabetic)
    return fails("gopher-alphabetic", fmt::format("{:.2f} of the words have a letter, expected at least {}",
                                                  alphabetic / n, r.min_alphabetic));
  if (static_cast<double>(stop_words.size()) < r.min_stop_words)
    return fails("gopher-stop-words", fmt::format("{} of the English stop words, expected at least {}",
                                                  stop_words.size(), r.min_stop_words));
  if (!r.repetition) return {};
  if (RuleResult v = repeated_lines(text); !v.rule.empty()) return v;
  return repeated_ngrams(words);
}

RuleResult c4(std::string& text, double min_sentences) {
  if (lower_ascii(text).find("lorem ipsum") != text.npos) return fails("c4-placeholder", "has 'lorem ipsum'");
  if (text.find('{') != text.npos) return fails("c4-braces", "has a curly bracket");
  std::string kept_lines;
  size_t sentences = 0;
  WordSplitter splitter({});
  for (const std::string_view line : split_at(text, '\n')) {
    const size_t last = line.find_last_not_of(" \t\r");
    if (last == line.npos) continue;
    const std::string_view body = line.substr(0, last + 1);
    const bool ends_sentence = body.ends_with('.') || body.ends_with('!') || body.ends_with('?') ||
                               body.ends_with('"') || body.ends_with("\u201D");
    if (!ends_sentence || body.ends_with("...")) continue;
    if (splitter.split(body).size() < 5) continue;
    if (lower_ascii(body).find("javascript") != body.npos) continue;
    for (size_t i = 0; i < body.size(); ++i)
      sentences += (body[i] == '.' || body[i] == '!' || body[i] == '?') &&
                   (i + 1 == body.size() || body[i + 1] == ' ' || body[i + 1] == '"');
    if (!kept_lines.empty()) kept_lines += '\n';
    kept_lines += body;
  }
  if (static_cast<double>(sentences) < min_sentences)
    return fails("c4-sentences",
                 fmt::format("{} sentences in full lines, expected at least {}", sentences, min_sentences));
  text = std::move(kept_lines);
  return {};
}

}  // namespace makar
