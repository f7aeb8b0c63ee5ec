#include "retrieval/analyzer.h"

#include <algorithm>

#include "base/utf8.h"
#include "retrieval/stop_words.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMaxCachedWords = size_t{1} << 18;

bool is_apostrophe(char32_t code) { return code == '\'' || code == 0x2019; }

}  // namespace

Result<Analyzer> Analyzer::open(const AnalyzerOptions& options) {
  Analyzer out(options);
  if (options.language == "none") return out;
  if (options.stem) {
    MAKAR_TRY(out.stemmer_, Stemmer::open(options.language, "--language"));
  }
  if (options.stop) {
    const std::string_view all = stop_words(options.language);
    for (size_t at = 0; at < all.size();) {
      const size_t end = std::min(all.find(' ', at), all.size());
      out.stop_.emplace(all.substr(at, end - at));
      at = end + 1;
    }
  }
  return out;
}

const std::string& Analyzer::term(const std::string& word) const {
  if (const auto found = terms_.find(word); found != terms_.end()) return found->second;
  if (terms_.size() >= kMaxCachedWords) terms_.clear();
  std::string out;
  if (!stop_.contains(word)) out = stemmer_ ? (*stemmer_)(word) : word;
  return terms_[word] = std::move(out);
}

std::vector<std::string> Analyzer::operator()(std::string_view text) const {
  std::vector<std::string> out;
  std::string word;
  const auto finish = [&] {
    if (word.empty()) return;
    if (word.size() > 2 && word.ends_with("'s")) word.resize(word.size() - 2);
    if (word.size() > kMaxTermBytes) {
      word.resize(kMaxTermBytes);
      word.resize(complete_utf8_prefix(word));
    }
    const std::string& indexed_term = term(word);
    if (!indexed_term.empty()) out.push_back(indexed_term);
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += c.size;
    if (c.code < 0x80) {
      const char ascii = static_cast<char>(c.code);
      if ((ascii >= 'a' && ascii <= 'z') || (ascii >= '0' && ascii <= '9') || ascii == '_') {
        word += ascii;
        continue;
      }
      if (ascii >= 'A' && ascii <= 'Z') {
        word += static_cast<char>(ascii | 0x20);
        continue;
      }
    } else if (c.ok && is_word(c.code)) {
      for (const char32_t lower : lowercase(c.code)) append_utf8(word, lower);
      continue;
    }
    // An apostrophe inside a word.
    if (is_apostrophe(c.code) && !word.empty() && at < text.size() && is_word(decode_utf8(text, at).code)) {
      word += '\'';
      continue;
    }
    finish();
  }
  finish();
  return out;
}

std::vector<int64_t> bag_of_words(const std::vector<std::string>& terms,
                                  const std::vector<std::string>& vocabulary) {
  std::unordered_map<std::string, int64_t> counts;
  for (const std::string& term : terms) ++counts[term];
  std::vector<int64_t> out;
  for (const std::string& word : vocabulary) {
    const auto found = counts.find(word);
    out.push_back(found == counts.end() ? 0 : found->second);
  }
  return out;
}

}  // namespace makar
