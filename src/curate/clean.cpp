#include "curate/clean.h"

#include <algorithm>
#include <unordered_set>

#include "curate/clean_text.h"
#include "text/hash.h"

namespace makar {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string clean_licence(std::string_view text) {
  size_t at = 0;
  if (text.starts_with("#!")) at = std::min(text.find('\n'), text.size() - 1) + 1;
  const size_t begin = text.find_first_not_of(" \t\r\n", at);
  if (begin == text.npos) return std::string(text);
  size_t end = begin;
  const std::string_view rest = text.substr(begin);
  if (rest.starts_with("/*")) {
    const size_t close = text.find("*/", begin);
    if (close == text.npos) return std::string(text);
    end = close + 2;
  } else {
    for (const std::string_view prefix : {"//", "#", "--", ";", "%"})
      if (rest.starts_with(prefix)) {
        while (end < text.size()) {
          const size_t line = text.find_first_not_of(" \t\r\n", end);
          if (line == text.npos || !text.substr(line).starts_with(prefix)) break;
          end = std::min(text.find('\n', line), text.size() - 1) + 1;
        }
        break;
      }
  }
  if (end == begin) return std::string(text);
  const std::string head = lower_ascii(text.substr(begin, end - begin));
  for (const char* word : {"copyright", "license", "licence", "spdx-", "all rights reserved"})
    if (head.find(word) != head.npos)
      return std::string(text.substr(0, at)) +
             std::string(text.substr(std::min(text.size(), text.find_first_not_of("\r\n", end))));
  return std::string(text);
}

std::string clean_boilerplate(std::string_view text) {
  static constexpr const char* kPhrases[] = {
      "cookie policy",        "accept cookies",    "we use cookies",    "uses cookies",
      "privacy policy",       "terms of use",      "terms of service",  "terms and conditions",
      "all rights reserved",  "sign up for",       "subscribe to our",  "click here to",
      "share this",           "share on facebook", "follow us on",      "skip to content",
      "skip to main content", "back to top",       "enable javascript", "log in to",
      "powered by wordpress", "leave a reply",     "read more \u00BB",  "add to cart"};
  constexpr size_t kMinRepeatedBytes = 20, kMaxPhraseBytes = 200, kMaxMenuBytes = 120;  // lengths of lines
  std::string out;
  std::unordered_set<uint64_t> seen;
  for (const std::string_view line : lines_of(text)) {
    const std::string_view body = trimmed_line(line);
    if (!body.empty()) {
      bool drop = body.size() >= kMinRepeatedBytes && !seen.insert(hash_bytes(body)).second;
      if (body.size() < kMaxPhraseBytes) {
        const std::string lower = lower_ascii(body);
        for (const char* phrase : kPhrases) drop |= lower.find(phrase) != lower.npos;
        // "Home | About | Contact"
        drop |= std::count(body.begin(), body.end(), '|') >= 2 && body.size() < kMaxMenuBytes;
      }
      if (drop) continue;
    }
    out += line;
    out += '\n';
  }
  if (!out.empty()) out.pop_back();
  return out;
}

std::string clean_blanks(std::string_view text) {
  std::string out;
  int empty_lines = 0;
  for (const std::string_view line : lines_of(text)) {
    const size_t last = line.find_last_not_of(" \t\r");
    if (last == line.npos) {
      ++empty_lines;
      continue;
    }
    if (!out.empty()) out += empty_lines > 0 ? "\n\n" : "\n";
    empty_lines = 0;
    for (const char c : line.substr(0, last + 1))
      if (static_cast<unsigned char>(c) >= 0x20 ? c != 0x7F : c == '\t') out += c;
  }
  return out;
}

const std::vector<Cleaner>& cleaners() {
  static const std::vector<Cleaner> kCleaners = {
      {"html", clean_html},
      {"wiki", clean_wiki},
      {"latex", clean_latex},
      {"licence", clean_licence},
      {"boilerplate", clean_boilerplate},
      {"blanks", clean_blanks},
  };
  return kCleaners;
}

}  // namespace makar
