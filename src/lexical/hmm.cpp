#include "lexical/hmm.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/utf8.h"
#include "data/schema.h"

namespace makar {
namespace {

constexpr size_t kMaxEndingBytes = 5;
constexpr double kMaxRareCount = 10;  // endings are counted over words that occur at most this often
constexpr size_t kMaxTags = 4096;

// Endings of up to five bytes at character borders, the longest first, each prefixed with the kind of the
// word: with a digit (#), with a capital first letter (A) or neither (a). The last two are the kind alone and
// "".
std::vector<std::string> endings(const std::string& word) {
  const bool capital = !word.empty() && word[0] >= 'A' && word[0] <= 'Z';
  const bool digit = word.find_first_of("0123456789") != word.npos;
  const std::string kind = digit ? "#" : capital ? "A" : "a";
  std::vector<std::string> out;
  for (size_t n = std::min(word.size(), kMaxEndingBytes); n > 0; --n)
    if (!is_utf8_continuation(word[word.size() - n]))
      out.push_back(kind + "-" + word.substr(word.size() - n));
  out.push_back(kind);
  out.push_back("");
  return out;
}

using TagWords = std::vector<std::map<uint32_t, double>>;  // for each tag, the counts of its words

// For each ending of rare words, log(p(tag | ending) / p(tag)): the log-likelihood of the ending up to a term
// that is the same for all tags. Numbers the endings in `ending_ids`.
std::vector<std::vector<double>> ending_scores(const NumberedWords& words,
                                               const std::vector<double>& word_count,
                                               const TagWords& tag_words,
                                               const std::vector<double>& tag_count, double k,
                                               NumberedWords& ending_ids) {
  const size_t tags = tag_words.size();
  std::vector<std::vector<double>> out;
  for (size_t t = 0; t < tags; ++t)
    for (const auto& [word, count] : tag_words[t])
      if (word_count[word] <= kMaxRareCount)
        for (const std::string& ending : endings(words.word(word))) {
          const uint32_t e = ending_ids.add(ending);
          if (e == out.size()) out.emplace_back(tags, 0.0);
          out[e][t] += count;
        }
  double total = 0;
  for (const double c : tag_count) total += c;
  for (auto& row : out) {
    double sum = 0;
    for (const double c : row) sum += c;
    for (size_t t = 0; t < tags; ++t)
      row[t] = std::log((row[t] + k) / (sum + k * static_cast<double>(tags))) -
               std::log((tag_count[t] + k) / total);
  }
  return out;
}

double log_sum_exp(const std::vector<double>& values) {
  const double max = *std::max_element(values.begin(), values.end());
  if (max < -1e300) return max;
  double sum = 0;
  for (const double v : values) sum += std::exp(v - max);
  return max + std::log(sum);
}

}  // namespace

Result<TaggedSentences> read_tagged(const std::vector<DataPath>& paths) {
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  TaggedSentences out;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const Json* tags = tags_field(record.value);
    const bool lists =
        record.value.contains("tokens") && record.value["tokens"].is_array() && tags && tags->is_array();
    if (!lists || tags->size() != record.value["tokens"].size() || tags->empty()) {
      reader.bad().add(record.place(), "expected a list of tokens and a list of tags of the same length");
      continue;
    }
    auto& words = out.words.emplace_back();
    auto& row = out.tags.emplace_back();
    for (const Json& w : record.value["tokens"])
      words.push_back(w.is_string() ? w.get<std::string>() : w.dump());
    for (const Json& t : *tags) row.push_back(t.is_string() ? t.get<std::string>() : t.dump());
  }
  if (out.words.empty())
    return error_at(paths.empty() ? "datasets" : paths[0].path, "there are no records with tokens and tags{}",
                    reader.bad().reported.empty() ? "" : "; " + reader.bad().reported[0]);
  return out;
}

HmmTagger HmmTagger::from_log_probs(std::vector<std::string> tags, NumberedWords words,
                                    std::vector<double> start, std::vector<std::vector<double>> transitions,
                                    std::vector<std::vector<double>> emissions) {
  HmmTagger out;
  out.tags_ = std::move(tags), out.words_ = std::move(words), out.start_ = std::move(start);
  out.transitions_ = std::move(transitions), out.emissions_ = std::move(emissions);
  return out;
}

Result<HmmTagger> HmmTagger::train(const TaggedSentences& data, double k) {
  if (!(k > 0 && k <= 1e6)) return error_at("`smoothing`", "must be above 0 and at most 1e6, got {}", k);
  std::map<std::string, size_t> number;
  for (const auto& row : data.tags)
    for (const auto& tag : row) number.emplace(tag, 0);
  HmmTagger out;
  for (auto& [tag, n] : number) n = out.tags_.size(), out.tags_.push_back(tag);
  const size_t tags = out.tags_.size();
  if (tags == 0 || tags > kMaxTags)
    return error_at("datasets", "expected 1 to {} different tags, found {}", kMaxTags, tags);
  out.start_.assign(tags, k);
  out.transitions_.assign(tags, std::vector<double>(tags + 1, k));
  TagWords tag_words(tags);
  std::vector<double> word_count, tag_count(tags, 0);
  for (size_t s = 0; s < data.words.size(); ++s) {
    size_t before = 0;
    for (size_t i = 0; i < data.words[s].size(); ++i) {
      const size_t tag = number.at(data.tags[s][i]);
      const uint32_t word = out.words_.add(data.words[s][i]);
      if (word == word_count.size()) word_count.push_back(0);
      ++word_count[word], ++tag_words[tag][word], ++tag_count[tag];
      ++(i == 0 ? out.start_[tag] : out.transitions_[before][tag]);
      before = tag;
    }
    if (!data.words[s].empty()) ++out.transitions_[before][tags];
  }
  out.by_ending_ = ending_scores(out.words_, word_count, tag_words, tag_count, k, out.endings_);
  const auto normalize = [](std::vector<double>& row) {
    double sum = 0;
    for (const double v : row) sum += v;
    for (double& v : row) v = std::log(v / sum);
  };
  normalize(out.start_);
  for (auto& row : out.transitions_) normalize(row);
  const double words = static_cast<double>(out.words_.size() + 1);
  const double small = 1e-3 * k;  // so that a known word seldom gets a tag it never had in training
  for (size_t t = 0; t < tags; ++t) {
    const double total = tag_count[t] + small * words;
    auto& row = out.emissions_.emplace_back(out.words_.size(), std::log(small / total));
    for (const auto& [word, count] : tag_words[t]) row[word] = std::log((count + small) / total);
  }
  return out;
}

std::vector<double> HmmTagger::emission(const std::string& word) const {
  std::vector<double> out(tags_.size(), 0);
  if (const auto id = words_.find(word)) {
    for (size_t t = 0; t < tags_.size(); ++t) out[t] = emissions_[t][*id];
    return out;
  }
  for (const std::string& ending : endings(word))
    if (const auto e = endings_.find(ending)) return by_ending_[*e];
  return out;
}

std::vector<std::string> HmmTagger::tag(const std::vector<std::string>& words, double* log_prob) const {
  const size_t tags = tags_.size(), n = words.size();
  if (n == 0) return {};
  std::vector<std::vector<uint32_t>> from(n, std::vector<uint32_t>(tags, 0));
  std::vector<double> best(tags), next(tags);
  for (size_t i = 0; i < n; ++i) {
    const auto e = emission(words[i]);
    for (size_t t = 0; t < tags; ++t) {
      if (i == 0) {
        next[t] = start_[t] + e[t];
        continue;
      }
      uint32_t arg = 0;
      for (uint32_t u = 1; u < tags; ++u)
        if (best[u] + transitions_[u][t] > best[arg] + transitions_[arg][t]) arg = u;
      from[i][t] = arg;
      next[t] = best[arg] + transitions_[arg][t] + e[t];
    }
    std::swap(best, next);
  }
  size_t at = 0;
  for (size_t t = 0; t < tags; ++t) {
    best[t] += transitions_[t][tags];
    if (best[t] > best[at]) at = t;
  }
  if (log_prob) *log_prob = best[at];
  std::vector<std::string> out(n);
  for (size_t i = n; i-- > 0; at = from[i][at]) out[i] = tags_[at];
  return out;
}

std::vector<std::vector<double>> HmmTagger::posteriors(const std::vector<std::string>& words,
                                                       double* log_prob) const {
  const size_t tags = tags_.size(), n = words.size();
  std::vector<std::vector<double>> forward(n, std::vector<double>(tags)), backward = forward, e,
                                                                          out = forward;
  std::vector<double> terms(tags);
  for (const std::string& word : words) e.push_back(emission(word));
  for (size_t i = 0; i < n; ++i)
    for (size_t t = 0; t < tags; ++t) {
      for (size_t u = 0; i > 0 && u < tags; ++u) terms[u] = forward[i - 1][u] + transitions_[u][t];
      forward[i][t] = (i == 0 ? start_[t] : log_sum_exp(terms)) + e[i][t];
    }
  for (size_t i = n; i-- > 0;)
    for (size_t t = 0; t < tags; ++t) {
      for (size_t u = 0; i + 1 < n && u < tags; ++u)
        terms[u] = transitions_[t][u] + e[i + 1][u] + backward[i + 1][u];
      backward[i][t] = i + 1 == n ? transitions_[t][tags] : log_sum_exp(terms);
    }
  for (size_t i = 0; i < n; ++i) {
    for (size_t t = 0; t < tags; ++t) terms[t] = forward[i][t] + backward[i][t];
    const double sentence_log_prob = log_sum_exp(terms);
    if (log_prob) *log_prob = sentence_log_prob;
    for (size_t t = 0; t < tags; ++t) out[i][t] = std::exp(terms[t] - sentence_log_prob);
  }
  return out;
}

Json HmmTagger::json() const {
  return {{"makar", "hmm-tagger"},       {"tags", tags_},          {"words", words_.words()},
          {"endings", endings_.words()}, {"start", start_},        {"transitions", transitions_},
          {"emissions", emissions_},     {"by_ending", by_ending_}};
}

Result<HmmTagger> HmmTagger::from_json(const Json& json, const std::string& place) {
  HmmTagger out;
  const auto list = [&](const char* key) -> Result<const Json*> {
    if (!json.is_object() || !json.contains(key) || !json[key].is_array())
      return error_at(place, "expected a list '{}'", key);
    return &json[key];
  };
  const auto strings = [&](const char* key, const std::function<void(const std::string&)>& use) -> Status {
    MAKAR_TRY(const Json* values, list(key));
    for (const Json& v : *values) {
      if (!v.is_string()) return error_at(place + ": " + key, "expected strings");
      use(v.get_ref<const std::string&>());
    }
    return Done{};
  };
  const auto numbers = [&](const Json& values, size_t size, const char* key,
                           std::vector<double>& to) -> Status {
    if (!values.is_array() || values.size() != size)
      return error_at(place + ": " + key, "expected {} numbers", size);
    for (const Json& v : values) {
      if (!v.is_number() || !std::isfinite(v.get<double>()))
        return error_at(place + ": " + key, "expected finite numbers");
      to.push_back(v.get<double>());
    }
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(strings("tags", [&](const std::string& s) { out.tags_.push_back(s); }));
  MAKAR_RETURN_IF_ERROR(strings("words", [&](const std::string& s) { out.words_.add(s); }));
  MAKAR_RETURN_IF_ERROR(strings("endings", [&](const std::string& s) { out.endings_.add(s); }));
  const size_t tags = out.tags_.size();
  if (tags == 0 || tags > kMaxTags)
    return error_at(place + ": tags", "expected 1 to {}, found {}", kMaxTags, tags);
  MAKAR_TRY(const Json* start, list("start"));
  MAKAR_RETURN_IF_ERROR(numbers(*start, tags, "start", out.start_));
  const auto rows = [&](const char* key, size_t count, size_t size,
                        std::vector<std::vector<double>>& to) -> Status {
    MAKAR_TRY(const Json* values, list(key));
    if (values->size() != count) return error_at(place + ": " + key, "expected {} lists", count);
    for (const Json& row : *values) MAKAR_RETURN_IF_ERROR(numbers(row, size, key, to.emplace_back()));
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(rows("transitions", tags, tags + 1, out.transitions_));
  MAKAR_RETURN_IF_ERROR(rows("emissions", tags, out.words_.size(), out.emissions_));
  MAKAR_RETURN_IF_ERROR(rows("by_ending", out.endings_.size(), tags, out.by_ending_));
  return out;
}

}  // namespace makar
