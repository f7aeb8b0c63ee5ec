#include "text/train/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "text/byte_alphabet.h"
#include "text/train/pair_index.h"
#include "text/unicode.h"

namespace makar {
namespace {

// Tokens by id and ids by token.
class TokenTable {
 public:
  uint32_t add(const std::string& token) {
    const auto [at, fresh] = ids_.emplace(token, static_cast<uint32_t>(by_id.size()));
    if (fresh) by_id.push_back(token);
    return at->second;
  }
  bool has(const std::string& token) const { return ids_.count(token) != 0; }
  std::vector<std::string> by_id;

 private:
  std::unordered_map<std::string, uint32_t> ids_;
};

// The characters of a word; bytes as letters of the byte alphabet.
template <class Visit>
void each_character(std::string_view word, bool bytes, Visit visit) {
  if (bytes) {
    for (const char c : word) visit(byte_to_letter(static_cast<unsigned char>(c)));
    return;
  }
  for (size_t at = 0; at < word.size();) visit(next_code(word, at));
}

// The characters to keep, by code point.
std::vector<char32_t> alphabet_of(const std::vector<WordCount>& words, const BpeSettings& t) {
  std::map<char32_t, uint64_t> counts;
  if (t.bytes) {
    uint64_t by_byte[256] = {};
    for (const WordCount& w : words)
      for (const char c : w.word) by_byte[static_cast<unsigned char>(c)] += w.count;
    for (int b = 0; b < 256; ++b)
      if (by_byte[b]) counts[byte_to_letter(static_cast<unsigned char>(b))] = by_byte[b];
  } else {
    std::unordered_map<char32_t, uint64_t> seen;
    for (const WordCount& w : words) each_character(w.word, false, [&](char32_t c) { seen[c] += w.count; });
    counts.insert(seen.begin(), seen.end());
  }
  for (const char32_t c : t.initial_alphabet) counts[c] = UINT64_MAX;
  std::vector<std::pair<char32_t, uint64_t>> characters(counts.begin(), counts.end());
  if (t.limit_alphabet && characters.size() > *t.limit_alphabet) {
    // Of equally frequent characters the smaller code point is kept.
    std::stable_sort(characters.begin(), characters.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    characters.resize(*t.limit_alphabet);
    std::sort(characters.begin(), characters.end());
  }
  std::vector<char32_t> out;
  for (const auto& [c, count] : characters) out.push_back(c);
  return out;
}

class BpeTrainer {
 public:
  BpeTrainer(const std::vector<WordCount>& words, const BpeSettings& t) : words_(words), settings_(t) {}

  Result<TrainedBpe> run(const std::function<void(size_t, size_t)>& progress) {
    for (const std::string& token : settings_.special_tokens) tokens_.add(token);
    for (const std::string& token : settings_.initial_tokens) tokens_.add(token);
    const std::vector<char32_t> alphabet = alphabet_of(words_, settings_);
    for (const char32_t c : alphabet) tokens_.add(utf8(c));
    split_words(alphabet);
    if (tokens_.by_id.size() > settings_.vocab_size)
      return error_of(Error::Kind::kLimit, "vocab_size",
                      "is {}, but the special tokens and the alphabet are {} tokens; raise it or "
                      "limit the alphabet",
                      settings_.vocab_size, tokens_.by_id.size());
    lengths_.assign(tokens_.by_id.size(), 1);
    count_pairs();
    merge_all(progress);
    return TrainedBpe{std::move(tokens_.by_id), std::move(merges_)};
  }

 private:
  struct Entry {
    double score;  // the count, or the likelihood score
    uint64_t key;
    uint32_t pair;
    uint32_t list;  // index of its word list in word_lists_
    bool operator<(const Entry& o) const { return score != o.score ? score < o.score : key > o.key; }
  };

  // Turns words into symbols, concatenated.
  void split_words(const std::vector<char32_t>& alphabet) {
    struct Forms {
      uint32_t id[2][2] = {{UINT32_MAX, UINT32_MAX}, {UINT32_MAX, UINT32_MAX}};  // [not first][last]
    };
    std::unordered_map<char32_t, Forms> forms;
    for (const char32_t c : alphabet) forms[c];
    // Continuing and ending forms get ids in alphabet order, regardless of the order of the words.
    const auto form = [&](char32_t c, bool continues, bool ends) {
      return tokens_.add((continues ? settings_.continuing_prefix : "") + utf8(c) +
                         (ends ? settings_.end_suffix : ""));
    };
    std::map<std::tuple<bool, bool, char32_t>, bool> needed;
    const bool without_affixes = settings_.continuing_prefix.empty() && settings_.end_suffix.empty();
    if (!without_affixes)
      for (const WordCount& w : words_)
        each_form(w, [&](char32_t c, bool first, bool last) { needed[{!first, last, c}] = true; });
    for (const auto& [key, used] : needed) {
      const auto [continues, ends, c] = key;
      if (const auto at = forms.find(c); at != forms.end())
        at->second.id[continues][ends] = form(c, continues, ends);
    }
    if (without_affixes)
      for (auto& [c, f] : forms) f.id[0][0] = f.id[0][1] = f.id[1][0] = f.id[1][1] = form(c, false, false);
    uint32_t by_byte[256];
    if (settings_.bytes && without_affixes)
      for (int b = 0; b < 256; ++b) {
        const auto at = forms.find(byte_to_letter(static_cast<unsigned char>(b)));
        by_byte[b] = at == forms.end() ? UINT32_MAX : at->second.id[0][0];
      }
    starts_.reserve(words_.size() + 1);
    for (const WordCount& w : words_) {
      starts_.push_back(symbols_.size());
      if (settings_.bytes && without_affixes) {
        for (const char c : w.word)
          if (const uint32_t id = by_byte[static_cast<unsigned char>(c)]; id != UINT32_MAX)
            symbols_.push_back(id);
      } else {
        each_form(w, [&](char32_t c, bool first, bool last) {
          if (const auto at = forms.find(c); at != forms.end())
            symbols_.push_back(at->second.id[!first][last]);
        });
      }
      sizes_.push_back(static_cast<uint32_t>(symbols_.size() - starts_.back()));
    }
  }

  template <class Visit>
  void each_form(const WordCount& w, Visit visit) {
    scratch_.clear();
    each_character(w.word, settings_.bytes, [&](char32_t c) { scratch_.push_back(c); });
    for (size_t i = 0; i < scratch_.size(); ++i) visit(scratch_[i], i == 0, i + 1 == scratch_.size());
  }

  void count_pairs() {
    if (settings_.score_by_likelihood) frequency_.assign(tokens_.by_id.size(), 0);
    for (size_t w = 0; w < words_.size(); ++w) {
      const uint32_t* s = symbols_.data() + starts_[w];
      for (uint32_t i = 0; i + 1 < sizes_[w]; ++i) change_count(s[i], s[i + 1], static_cast<uint32_t>(w), 1);
      if (settings_.score_by_likelihood)
        for (uint32_t i = 0; i < sizes_[w]; ++i) frequency_[s[i]] += words_[w].count;
    }
    queue_changed_pairs();
  }

  // Adds (sign 1) or removes (sign -1) one occurrence of the pair (left, right) in word w.
  void change_count(uint32_t left, uint32_t right, uint32_t w, int sign) {
    const uint32_t index = pairs_.find(PairIndex::key(left, right));
    PairIndex::Pair& pair = pairs_[index];
    pair.count += sign * static_cast<int64_t>(words_[w].count);
    if (sign < 0) return;
    if (pair.new_words.empty()) changed_pairs_.push_back(index);
    if (pair.new_words.empty() || pair.new_words.back() != w) pair.new_words.push_back(w);
  }

  double score(const PairIndex::Pair& pair) const {
    const auto count = static_cast<double>(pair.count);
    if (!settings_.score_by_likelihood) return count;
    return count / (static_cast<double>(frequency_[pair.key >> 32]) *
                    static_cast<double>(frequency_[pair.key & UINT32_MAX]));
  }

  void queue_changed_pairs() {
    for (const uint32_t index : changed_pairs_) {
      PairIndex::Pair& pair = pairs_[index];
      if (pair.count > 0) {
        word_lists_.push_back(std::move(pair.new_words));
        queue_.push({score(pair), pair.key, index, static_cast<uint32_t>(word_lists_.size() - 1)});
        if (settings_.score_by_likelihood) {
          neighbours_.resize(tokens_.by_id.size());
          const auto list = static_cast<uint32_t>(word_lists_.size() - 1);
          for (const uint64_t symbol : {pair.key >> 32, pair.key & UINT32_MAX})
            neighbours_[symbol].push_back({index, list});
        }
      }
      pair.new_words = {};
    }
    changed_pairs_.clear();
  }

  void merge_all(const std::function<void(size_t, size_t)>& progress) {
    while (tokens_.by_id.size() < settings_.vocab_size && !queue_.empty()) {
      const Entry top = queue_.top();
      queue_.pop();
      const PairIndex::Pair& pair = pairs_[top.pair];
      if (word_lists_[top.list].empty()) continue;  // already merged through a newer entry of the same list
      if (const double current_score = score(pair); current_score != top.score) {
        // With counts, scores only decrease, and an outdated entry is queued again with its current score.
        // With likelihoods they may increase, so every change queues a new entry and the outdated one is
        // dropped.
        if (!settings_.score_by_likelihood) queue_.push({current_score, top.key, top.pair, top.list});
        continue;
      }
      if (pair.count < 1 || static_cast<uint64_t>(pair.count) < settings_.min_frequency) {
        if (settings_.score_by_likelihood) continue;
        break;
      }
      const auto left = static_cast<uint32_t>(top.key >> 32), right = static_cast<uint32_t>(top.key);
      const uint32_t merged = add_merged(left, right);
      const std::vector<uint32_t> words_with_pair = std::move(word_lists_[top.list]);
      word_lists_[top.list] = {};
      for (const uint32_t w : words_with_pair) merge_in_word(w, left, right, merged);
      queue_changed_pairs();
      if (settings_.score_by_likelihood) requeue_neighbours({left, right, merged});
      if (progress && (merges_.size() & 255) == 0) progress(tokens_.by_id.size(), settings_.vocab_size);
    }
  }

  uint32_t add_merged(uint32_t left, uint32_t right) {
    const std::string& b = tokens_.by_id[right];
    const bool strip = !settings_.continuing_prefix.empty() && b.starts_with(settings_.continuing_prefix);
    const uint32_t id =
        tokens_.add(tokens_.by_id[left] + (strip ? b.substr(settings_.continuing_prefix.size()) : b));
    if (id == lengths_.size()) lengths_.push_back(lengths_[left] + lengths_[right]);
    if (settings_.score_by_likelihood) frequency_.resize(tokens_.by_id.size(), 0);
    merges_.emplace_back(left, right);
    return id;
  }

  void merge_in_word(uint32_t w, uint32_t left, uint32_t right, uint32_t merged) {
    uint32_t* s = symbols_.data() + starts_[w];
    const uint32_t n = sizes_[w];
    const auto fits = [&](uint32_t other) {
      return settings_.max_token_length == 0 ||
             lengths_[other] + lengths_[merged] < settings_.max_token_length;
    };
    uint32_t out = 0;
    for (uint32_t i = 0; i < n; ++i) {
      if (s[i] != left || i + 1 >= n || s[i + 1] != right) {
        s[out++] = s[i];
        continue;
      }
      if (out > 0) {
        change_count(s[out - 1], left, w, -1);
        if (fits(s[out - 1])) change_count(s[out - 1], merged, w, 1);
      }
      if (i + 2 < n) {
        change_count(right, s[i + 2], w, -1);
        if (fits(s[i + 2])) change_count(merged, s[i + 2], w, 1);
      }
      if (settings_.score_by_likelihood) {
        frequency_[left] -= words_[w].count, frequency_[right] -= words_[w].count;
        frequency_[merged] += words_[w].count;
      }
      s[out++] = merged;
      ++i;
    }
    sizes_[w] = out;
  }

  // Queues new entries for every pair whose score the merge may have changed.
  void requeue_neighbours(std::initializer_list<uint32_t> symbols) {
    for (const uint32_t symbol : symbols) {
      if (symbol >= neighbours_.size()) continue;
      auto& list = neighbours_[symbol];
      list.erase(std::remove_if(
                     list.begin(), list.end(),
                     [&](const auto& n) { return word_lists_[n.list].empty() || pairs_[n.pair].count <= 0; }),
                 list.end());
      for (const Neighbour& n : list)
        queue_.push({score(pairs_[n.pair]), pairs_[n.pair].key, n.pair, n.list});
    }
  }

  struct Neighbour {
    uint32_t pair, list;
  };
  const std::vector<WordCount>& words_;
  const BpeSettings& settings_;
  TokenTable tokens_;
  std::vector<uint32_t> lengths_;  // of tokens, in characters
  std::vector<uint32_t> symbols_, sizes_;
  std::vector<size_t> starts_;
  PairIndex pairs_;
  std::vector<uint32_t> changed_pairs_;
  std::vector<std::vector<uint32_t>> word_lists_;
  std::priority_queue<Entry> queue_;
  std::vector<std::pair<uint32_t, uint32_t>> merges_;
  std::vector<char32_t> scratch_;
  std::vector<uint64_t> frequency_;                 // of symbols, for the likelihood score
  std::vector<std::vector<Neighbour>> neighbours_;  // pairs by symbol, for the likelihood score
};

}  // namespace

Result<TrainedBpe> train_bpe(const std::vector<WordCount>& words, const BpeSettings& settings,
                             const std::function<void(size_t, size_t)>& progress) {
  if (settings.vocab_size > (size_t{1} << 30))
    return error_of(Error::Kind::kLimit, "vocab_size", "expected at most 2^30, got {}", settings.vocab_size);
  return BpeTrainer(words, settings).run(progress);
}

}  // namespace makar
