#include "lexical/ngram_model.h"

#include <cmath>

namespace makar {

Result<NgramModel> NgramModel::make(NumberedWords words, std::vector<NgramLevel> levels,
                                    const std::string& place) {
  check(!levels.empty() && levels.size() <= kMaxOrder, "an n-gram model has 1 to 10 levels");
  check(levels[0].log_prob.size() == words.size(), "level 1 lists every word");
  NgramModel m;
  const auto find = [&](std::initializer_list<const char*> names) -> std::optional<uint32_t> {
    for (const char* name : names)
      if (const auto id = words.find(name)) return id;
    return std::nullopt;
  };
  const auto begin = find({kBeginSentence}), end = find({kEndSentence}),
             unknown = find({kUnknownWord, "<UNK>"});
  if (!begin || !end)
    return error_at(place, "the vocabulary must have {} and {}", kBeginSentence, kEndSentence);
  if (!unknown) {
    // A closed vocabulary (SRILM without -unk): unknown words get -99, SRILM's logarithm of 0.
    words.add(kUnknownWord);
    levels[0].table.add(0, static_cast<uint32_t>(words.size() - 1));
    levels[0].log_prob.push_back(-99), levels[0].log_backoff.push_back(0);
  }
  m.begin_ = *begin, m.end_ = *end, m.unknown_ = unknown.value_or(static_cast<uint32_t>(words.size() - 1));
  m.words_ = std::move(words), m.levels_ = std::move(levels);
  return m;
}

NgramModel::State NgramModel::start() const {
  State state;
  state.ngrams.fill(NgramTable::kNone);
  state.ngrams[0] = begin_, state.longest = order() > 1 ? 1 : 0;
  return state;
}

NgramModel::WordScore NgramModel::step(State& state, uint32_t word) const {
  WordScore out{0, 0, word == unknown_};
  State next;
  next.ngrams.fill(NgramTable::kNone);
  double backoff = 0;
  for (int length = state.longest; length >= 0; --length) {  // length of the context
    const uint32_t context = length > 0 ? state.ngrams[static_cast<size_t>(length - 1)] : 0;
    if (length > 0 && context == NgramTable::kNone) continue;
    const auto& level = levels_[static_cast<size_t>(length)];
    const uint32_t found = length == 0 ? word : level.table.find(context, word);
    if (found != NgramTable::kNone) {
      if (out.matched == 0) out.log_prob = backoff + level.log_prob[found], out.matched = length + 1;
      if (length + 1 < order()) {
        next.ngrams[static_cast<size_t>(length)] = found;
        next.longest = std::max(next.longest, length + 1);
      }
    } else {
      backoff += levels_[static_cast<size_t>(length - 1)].log_backoff[context];
    }
  }
  state = next;
  return out;
}

std::vector<NgramModel::ByPrefix> NgramModel::by_prefix() const {
  std::vector<ByPrefix> out(levels_.size());
  for (size_t k = 1; k < levels_.size(); ++k) {
    const NgramTable& table = levels_[k].table;
    std::vector<uint32_t>& first = out[k].first;
    first.assign(levels_[k - 1].table.size() + 1, 0);
    for (uint32_t i = 0; i < table.size(); ++i) ++first[table.prefix(i) + 1];
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    out[k].list.resize(table.size());
    std::vector<uint32_t> at(first.begin(), first.end() - 1);
    for (uint32_t i = 0; i < table.size(); ++i) out[k].list[at[table.prefix(i)]++] = i;
  }
  return out;
}

void NgramModel::distribution(const State& state, const std::vector<ByPrefix>& index,
                              std::vector<double>& out) const {
  out.resize(words_.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::pow(10.0, levels_[0].log_prob[i]);
  for (int length = 1; length <= state.longest; ++length) {
    const uint32_t context = state.ngrams[static_cast<size_t>(length - 1)];
    if (context == NgramTable::kNone) continue;
    const double backoff = std::pow(10.0, levels_[static_cast<size_t>(length - 1)].log_backoff[context]);
    for (double& p : out) p *= backoff;
    const auto& level = levels_[static_cast<size_t>(length)];
    const ByPrefix& by = index[static_cast<size_t>(length)];
    for (uint32_t i = by.first[context]; i < by.first[context + 1]; ++i)
      out[level.table.word(by.list[i])] = std::pow(10.0, level.log_prob[by.list[i]]);
  }
  out[begin_] = 0;
}

void NgramScore::add(const NgramScore& other) {
  sentences += other.sentences, words += other.words, unknown += other.unknown;
  log_prob += other.log_prob, log_prob_unknown += other.log_prob_unknown;
  if (matched.size() < other.matched.size()) matched.resize(other.matched.size());
  for (size_t i = 0; i < other.matched.size(); ++i) matched[i] += other.matched[i];
}

double NgramScore::perplexity() const {
  return tokens() == 0 ? 0 : std::pow(10.0, -log_prob / static_cast<double>(tokens()));
}
double NgramScore::known_perplexity() const {
  const uint64_t known = tokens() - unknown;
  return known == 0 ? 0 : std::pow(10.0, -(log_prob - log_prob_unknown) / static_cast<double>(known));
}
double NgramScore::bits_per_token() const {
  return tokens() == 0 ? 0 : -log_prob * std::log2(10.0) / static_cast<double>(tokens());
}

NgramScore score_sentence(const NgramModel& model, std::span<const std::string_view> words) {
  NgramScore out;
  out.sentences = 1, out.words = words.size();
  out.matched.resize(static_cast<size_t>(model.order()));
  NgramModel::State state = model.start();
  const auto add_word = [&](uint32_t word) {
    const auto scored = model.step(state, word);
    out.log_prob += scored.log_prob;
    if (scored.unknown_word) ++out.unknown, out.log_prob_unknown += scored.log_prob;
    ++out.matched[static_cast<size_t>(scored.matched - 1)];
  };
  for (const std::string_view word : words) {
    const uint32_t id = model.id(word);
    add_word(id == model.begin() || id == model.end() ? model.unknown() : id);  // the text contains a marker
  }
  add_word(model.end());
  return out;
}

}  // namespace makar
