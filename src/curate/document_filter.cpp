#include "curate/document_filter.h"

#include <algorithm>

#include "base/quote.h"
#include "base/sha256.h"
#include "curate/names.h"
#include "curate/quality.h"
#include "lexical/corpus.h"

namespace makar {
namespace {

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  char* end = nullptr;
  const double out = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? std::nullopt : std::optional(out);
}

}  // namespace

DocumentFilter::DocumentFilter(const CurateOptions& o) : o_(o) {
  for (const std::string& name : o.clean)
    for (const Cleaner& c : cleaners())
      if (name == c.name) cleaners_.push_back(&c);
}

Result<DocumentFilter> DocumentFilter::create(const CurateOptions& o) {
  DocumentFilter out(o);
  if (o.contamination > 0) {
    MAKAR_TRY(auto read, Contamination::read(o.evaluation, o.contamination));
    out.contamination_.emplace(std::move(read));
  }
  return out;
}

void DocumentFilter::check_fields(const Json& record, FilteredDocument& d) const {
  if (!record.is_object()) return;
  for (const auto& [field, min] : o_.min_fields)
    if (const auto at = record.find(field); at != record.end())
      if (const auto value = number_of(*at); value && *value < min) {
        d.drop("field-" + field, fmt::format("{} is {}, expected at least {}", field, *value, min));
        return;
      }
}

void DocumentFilter::filter(FilteredDocument& d) const {
  if (o_.groups) d.groups = o_.groups->count(d.text);
  if (!d.reason.empty()) return;
  for (const Cleaner* c : cleaners_) {
    std::string cleaned = c->clean(d.text);
    if (cleaned != d.text) d.changed.push_back(c->name);
    d.text = std::move(cleaned);
  }
  (void)(language(d) || quality(d) || perplexity(d) || toxic(d) || contaminated(d));
  if (!d.reason.empty()) return;
  if (o_.pii) {
    PiiResult clean = remove_pii(d.text);
    d.text = std::move(clean.text), d.pii = clean.found;
  }
  if (o_.names) {
    NamesResult clean = remove_names(d.text, o_.name_tagger);
    if (clean.found > 0) d.changed.push_back("names");
    d.text = std::move(clean.text);
  }
  if (o_.exact) {
    Sha256 sum;
    sum.add(d.text);
    const std::string hex = sum.hex();
    d.hash[0] = std::stoull(hex.substr(0, 16), nullptr, 16),
    d.hash[1] = std::stoull(hex.substr(16, 16), nullptr, 16);
  }
  if (o_.near > 0) d.signature = minhash(d.text);
}

bool DocumentFilter::language(FilteredDocument& d) const {
  if (!o_.language_id) return false;
  const auto answer = o_.language_id->detect(d.text);
  d.language = answer.language;
  if (o_.languages.empty()) return false;
  const bool accepted =
      std::find(o_.languages.begin(), o_.languages.end(), answer.language) != o_.languages.end();
  if (accepted && answer.probability >= o_.min_language_score) return false;
  return d.drop("language", fmt::format("{} with score {:.2f}", answer.language, answer.probability));
}

bool DocumentFilter::quality(FilteredDocument& d) const {
  if (d.text.find_first_not_of(" \t\r\n") == std::string::npos)
    return d.drop("empty", "nothing is left after cleaning");
  if (o_.c4)
    if (const RuleResult v = c4(d.text); !v.rule.empty()) return d.drop(v.rule, v.detail);
  if (o_.min_words > 0) {
    WordSplitter splitter({});
    const size_t words = splitter.split(d.text).size();
    if (words < static_cast<size_t>(o_.min_words))
      return d.drop("short", fmt::format("{} words, expected at least {}", words, o_.min_words));
  }
  if (o_.min_tokens > 0) {
    const size_t tokens = o_.count_tokens(d.text);
    if (tokens < static_cast<size_t>(o_.min_tokens))
      return d.drop("few-tokens", fmt::format("{} tokens, expected at least {}", tokens, o_.min_tokens));
  }
  if (o_.gopher)
    if (const RuleResult v = gopher(d.text, {}); !v.rule.empty()) return d.drop(v.rule, v.detail);
  return false;
}

bool DocumentFilter::perplexity(FilteredDocument& d) const {
  if (!o_.ngrams) return false;
  WordSplitter splitter(o_.ngram_words);
  NgramScore total;
  for (size_t at = 0; at < d.text.size();) {
    const size_t end = std::min(d.text.find('\n', at), d.text.size());
    const auto& words = splitter.split(std::string_view(d.text).substr(at, end - at));
    if (!words.empty()) total.add(score_sentence(*o_.ngrams, words));
    at = end + 1;
  }
  if (total.tokens() > 0) d.perplexity = total.perplexity();
  if (o_.max_perplexity <= 0 || (total.tokens() > 0 && d.perplexity <= o_.max_perplexity)) return false;
  return d.drop("perplexity",
                fmt::format("{:.0f}, expected at most {:.0f}", total.perplexity(), o_.max_perplexity));
}

// The highest score of its lines: one bad line is enough.
bool DocumentFilter::toxic(FilteredDocument& d) const {
  if (!o_.toxicity) return false;
  const auto& labels = o_.toxicity->labels();
  const auto label =
      static_cast<size_t>(std::find(labels.begin(), labels.end(), o_.toxic_label) - labels.begin());
  double highest = 0;
  for (size_t at = 0; at < d.text.size();) {
    const size_t end = std::min(d.text.find('\n', at), d.text.size());
    if (end > at)
      highest = std::max(highest,
                         o_.toxicity->classify(std::string_view(d.text).substr(at, end - at)).scores[label]);
    at = end + 1;
  }
  d.toxicity = highest;
  if (highest <= o_.max_toxicity) return false;
  return d.drop("toxic", fmt::format("score {:.2f}, expected at most {:.2f}", highest, o_.max_toxicity));
}

bool DocumentFilter::contaminated(FilteredDocument& d) const {
  if (!contamination_) return false;
  const std::string shared = contamination_->shared(d.text);
  return !shared.empty() && d.drop("contaminated", "shares " + quote(shared) + " with evaluation data");
}

}  // namespace makar
