#include "text/train/unigram_trainer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "text/train/substring_index.h"
#include "text/train/unigram_lattice.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMaxPieceLength = 64;

double digamma(double x) {
  double result = 0;
  for (; x < 7; x += 1) result -= 1 / x;
  x -= 0.5;
  const double y = 1 / x, y2 = y * y, y4 = y2 * y2;
  return result + std::log(x) + y2 / 24 - 7.0 / 960 * y4 + 31.0 / 8064 * y4 * y2 - 127.0 / 30720 * y4 * y4;
}

class UnigramTrainer {
 public:
  UnigramTrainer(const UnigramSettings& t, ThreadPool& pool) : settings_(t), pool_(pool) {}

  Result<TrainedUnigram> run(const std::vector<WordCount>& words,
                             const std::function<void(size_t, size_t, double)>& progress) {
    read_words(words);
    std::vector<std::string> special = settings_.special_tokens;
    TrainedUnigram out;
    if (!settings_.unk_token.empty()) {
      auto at = std::find(special.begin(), special.end(), settings_.unk_token);
      if (at == special.end()) at = special.insert(special.begin(), settings_.unk_token);
      out.unk_id = static_cast<size_t>(at - special.begin());
    }
    if (required_.size() + special.size() > settings_.vocab_size)
      return error_of(Error::Kind::kLimit, "vocab_size",
                      "is {}, but there are {} characters and {} special tokens; raise it",
                      settings_.vocab_size, required_.size(), special.size());
    make_seed();
    const size_t target_size = settings_.vocab_size * 11 / 10;  // finish() selects the vocabulary from these
    while (true) {
      for (int i = 0; i < settings_.sub_iterations; ++i)
        maximise(lattice_.expected_counts(log_p_, pool_, &out.loss));
      if (progress) progress(pieces_.size(), settings_.vocab_size, out.loss);
      if (pieces_.size() <= target_size) break;
      if (!prune(target_size)) break;
    }
    finish(special, out);
    return out;
  }

 private:
  // Numbers the characters in code point order, from 1.
  void read_words(const std::vector<WordCount>& words) {
    std::map<char32_t, uint64_t> counts;
    {
      std::unordered_map<char32_t, uint64_t> seen;
      for (const WordCount& w : words)
        for (size_t at = 0; at < w.word.size();) seen[next_code(w.word, at)] += w.count;
      counts.insert(seen.begin(), seen.end());
    }
    std::unordered_map<char32_t, uint32_t> numbers;
    letters_ = {0};
    letter_counts_ = {0};
    for (const auto& [c, count] : counts) {
      numbers[c] = static_cast<uint32_t>(letters_.size());
      letters_.push_back(c);
      letter_counts_.push_back(count);
      required_.push_back(utf8(c));
    }
    for (const char32_t c : settings_.initial_alphabet)
      if (!counts.count(c)) required_.push_back(utf8(c));
    for (const WordCount& w : words) {
      if (w.word.empty()) continue;
      lattice_.starts.push_back(static_cast<uint32_t>(text_.size()));
      lattice_.counts.push_back(w.count);
      for (size_t at = 0; at < w.word.size();) text_.push_back(numbers[next_code(w.word, at)]);
      text_.push_back(0);
    }
    lattice_.starts.push_back(static_cast<uint32_t>(text_.size()));
  }

  struct CandidatePiece {
    uint32_t at, length;  // in text_
  };

  // Seed pieces: all characters by count, then repeated substrings by occurrences times length.
  void make_seed() {
    const SubstringIndex index = index_substrings(text_, static_cast<uint32_t>(settings_.max_piece_length));
    std::vector<uint32_t> order(index.substrings.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
    const auto score = [&](uint32_t i) {
      return index.substrings[i].occurrences() * index.substrings[i].length;
    };
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (score(a) != score(b)) return score(a) > score(b);
      const Substring &x = index.substrings[a], &y = index.substrings[b];
      return x.first != y.first ? x.first > y.first : x.length > y.length;
    });
    std::vector<uint32_t> characters;
    for (uint32_t c = 1; c < letters_.size(); ++c) characters.push_back(c);
    std::sort(characters.begin(), characters.end(), [&](uint32_t a, uint32_t b) {
      return letter_counts_[a] != letter_counts_[b] ? letter_counts_[a] > letter_counts_[b] : a > b;
    });
    std::vector<uint32_t> position(letters_.size(), 0);  // one position of each character in the text
    for (uint32_t i = 0; i < text_.size(); ++i) position[text_[i]] = i;
    std::vector<uint32_t> piece_of(letters_.size(), 0);
    pieces_ = {{0, 0}};
    std::vector<double> scores = {0};
    for (const uint32_t c : characters) {
      piece_of[c] = static_cast<uint32_t>(pieces_.size());
      pieces_.push_back({position[c], 1});
      scores.push_back(static_cast<double>(letter_counts_[c]));
    }
    const size_t slots =
        settings_.seed_size > characters.size() ? settings_.seed_size - characters.size() : 0;
    order.resize(std::min(order.size(), slots));
    for (const uint32_t i : order) {
      pieces_.push_back({index.suffixes[index.substrings[i].first], index.substrings[i].length});
      scores.push_back(static_cast<double>(score(i)));
    }
    double sum = 0;
    for (const double s : scores) sum += s;
    log_p_.assign(scores.size(), 0);
    for (size_t i = 1; i < scores.size(); ++i) log_p_[i] = std::log(scores[i]) - std::log(sum);
    make_edges(index, order, piece_of, static_cast<uint32_t>(characters.size() + 1));
  }

  // Sweeps over the suffix array: the substrings open at a suffix are the pieces that start there.
  void make_edges(const SubstringIndex& index, const std::vector<uint32_t>& order,
                  const std::vector<uint32_t>& piece_of, uint32_t first_piece) {
    struct Interval {
      uint32_t first, last, length, piece;
    };
    std::vector<Interval> intervals;
    for (size_t k = 0; k < order.size(); ++k) {
      const Substring& s = index.substrings[order[k]];
      intervals.push_back({s.first, s.last, s.length, static_cast<uint32_t>(first_piece + k)});
    }
    std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
      return a.first != b.first ? a.first < b.first : a.length < b.length;
    });
    std::vector<uint64_t>& starts = lattice_.edge_starts;
    starts.assign(text_.size() + 1, 0);
    for (const bool fill : {false, true}) {
      std::vector<Interval> open;
      size_t next = 0;
      for (uint32_t i = 0; i < index.suffixes.size(); ++i) {
        while (!open.empty() && open.back().last < i) open.pop_back();
        while (next < intervals.size() && intervals[next].first == i) open.push_back(intervals[next++]);
        const uint32_t at = index.suffixes[i];
        if (!fill) {
          starts[at + 1] = open.size() + 1;
          continue;
        }
        uint64_t e = starts[at];
        lattice_.edges[e++] = {piece_of[text_[at]], 1};
        for (const Interval& o : open) lattice_.edges[e++] = {o.piece, o.length};
      }
      if (fill) break;
      for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
      lattice_.edges.resize(starts.back());
    }
  }

  // Removes pieces with an expected count below 0.5; the others get the digamma of their counts, a sparse
  // prior.
  void maximise(const std::vector<double>& expected) {
    std::vector<CandidatePiece> remaining = {pieces_[0]};
    std::vector<double> counts = {0};
    std::vector<uint32_t> new_ids(pieces_.size(), UINT32_MAX);
    new_ids[0] = 0;
    double sum = 0;
    for (size_t i = 1; i < pieces_.size(); ++i) {
      if (expected[i] < 0.5) continue;
      new_ids[i] = static_cast<uint32_t>(remaining.size());
      remaining.push_back(pieces_[i]);
      counts.push_back(expected[i]);
      sum += expected[i];
    }
    const bool none_removed = remaining.size() == pieces_.size();
    const double log_sum = digamma(sum);
    log_p_.assign(remaining.size(), 0);
    for (size_t i = 1; i < remaining.size(); ++i) log_p_[i] = digamma(counts[i]) - log_sum;
    pieces_ = std::move(remaining);
    if (!none_removed) lattice_.renumber(new_ids);
  }

  // The best segmentation of a piece into other pieces; empty if there is none. `better`: whether it is more
  // probable than the piece.
  std::vector<uint32_t> alternative(uint32_t id, double unknown, bool* better) const {
    const CandidatePiece piece = pieces_[id];
    double best[kMaxPieceLength + 1];
    uint32_t from[kMaxPieceLength + 1], piece_before[kMaxPieceLength + 1];
    for (uint32_t i = 0; i <= piece.length; ++i) best[i] = -INFINITY;
    best[0] = 0;
    for (uint32_t i = 0; i < piece.length; ++i) {
      const auto relax = [&](uint32_t p, uint32_t length, double log_p) {
        if (i + length > piece.length || (i == 0 && length == piece.length) ||
            best[i] + log_p <= best[i + length])
          return;
        best[i + length] = best[i] + log_p, from[i + length] = i, piece_before[i + length] = p;
      };
      const uint64_t begin = lattice_.edge_starts[piece.at + i], end = lattice_.edge_starts[piece.at + i + 1];
      if (begin == end || lattice_.edges[begin].length != 1) relax(0, 1, unknown);
      for (uint64_t e = begin; e < end; ++e)
        relax(lattice_.edges[e].piece, lattice_.edges[e].length, log_p_[lattice_.edges[e].piece]);
    }
    std::vector<uint32_t> out;
    if (best[piece.length] == -INFINITY) return out;
    *better = best[piece.length] > log_p_[id];
    for (uint32_t at = piece.length; at > 0; at = from[at]) out.push_back(piece_before[at]);
    return out;
  }

  // Keeps the pieces whose removal would lose the most likelihood; false when nothing more can be removed.
  bool prune(size_t target_size) {
    const std::vector<double> frequency = lattice_.count_best(log_p_, pool_);
    double total = 0, sum = 0;
    for (const uint64_t c : lattice_.counts) total += static_cast<double>(c);
    for (const double f : frequency) sum += f;
    const double log_sum = std::log(sum), unknown = unknown_log_p(log_p_);
    const size_t n = pieces_.size();
    enum class Decision : uint8_t { kRemove, kKeep, kByLoss };
    std::vector<Decision> decisions(n, Decision::kRemove);
    std::vector<double> loss(n, 0);
    pool_.for_ranges(static_cast<int64_t>(n), 4096, [&](int64_t begin, int64_t end) {
      for (auto id = static_cast<uint32_t>(std::max<int64_t>(begin, 1)); id < end; ++id) {
        bool better = false;
        std::vector<uint32_t> alternative_pieces = alternative(id, unknown, &better);
        const bool always_keep = alternative_pieces.empty() || !better;
        if (better) alternative_pieces.clear();
        const double f = frequency[id];
        if (f == 0 && !always_keep) continue;
        if (alternative_pieces.empty()) {
          decisions[id] = Decision::kKeep;
          continue;
        }
        if (f == 0) continue;
        const double log_alternative_sum =
            std::log(sum + f * static_cast<double>(alternative_pieces.size() - 1));
        double log_alternative = 0;
        for (const uint32_t o : alternative_pieces)
          log_alternative += std::log(frequency[o] + f) - log_alternative_sum;
        decisions[id] = Decision::kByLoss;
        loss[id] = f / total * (std::log(f) - log_sum - log_alternative);
      }
    });
    std::vector<uint32_t> order = {0}, candidates;
    for (uint32_t id = 1; id < n; ++id) {
      if (decisions[id] == Decision::kKeep) order.push_back(id);
      if (decisions[id] == Decision::kByLoss) candidates.push_back(id);
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](uint32_t a, uint32_t b) { return loss[a] > loss[b]; });
    const size_t size =
        std::max(target_size, static_cast<size_t>(static_cast<double>(n) * settings_.shrinking_factor));
    for (const uint32_t id : candidates) {
      if (order.size() >= size) break;
      order.push_back(id);
    }
    std::vector<CandidatePiece> remaining;
    std::vector<double> log_p;
    std::vector<uint32_t> new_ids(n, UINT32_MAX);
    for (const uint32_t id : order) {
      new_ids[id] = static_cast<uint32_t>(remaining.size());
      remaining.push_back(pieces_[id]);
      log_p.push_back(log_p_[id]);
    }
    pieces_ = std::move(remaining), log_p_ = std::move(log_p);
    lattice_.renumber(new_ids);
    return order.size() < n;
  }

  std::string text_of(const CandidatePiece& p) const {
    std::string out;
    for (uint32_t i = 0; i < p.length; ++i) append_utf8(out, letters_[text_[p.at + i]]);
    return out;
  }

  // All characters first, then the pieces in order until the vocabulary is full; sorted by probability.
  void finish(const std::vector<std::string>& special, TrainedUnigram& out) {
    std::unordered_map<std::string, double> log_p_by_text;
    double min = 0, penalty = 0;
    for (size_t i = 1; i < pieces_.size(); ++i) {
      log_p_by_text.emplace(text_of(pieces_[i]), log_p_[i]);
      min = std::min(min, log_p_[i]);
    }
    std::unordered_map<std::string, bool> used;
    for (const std::string& s : special) used[s] = true;
    std::vector<std::pair<std::string, double>> selected;
    const size_t slots = settings_.vocab_size - special.size();
    for (const std::string& c : required_) {
      if (used.count(c)) continue;
      const auto at = log_p_by_text.find(c);
      selected.emplace_back(c, at != log_p_by_text.end() ? at->second : min + penalty);
      if (at == log_p_by_text.end()) penalty += 0.0001;
      used[c] = true;
    }
    for (size_t i = 1; i < pieces_.size() && selected.size() < slots; ++i) {
      std::string piece = text_of(pieces_[i]);
      if (used.emplace(piece, true).second) selected.emplace_back(std::move(piece), log_p_[i]);
    }
    std::stable_sort(selected.begin(), selected.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const std::string& s : special) out.pieces.emplace_back(s, 0.0);
    out.pieces.insert(out.pieces.end(), selected.begin(), selected.end());
  }

  const UnigramSettings& settings_;
  ThreadPool& pool_;
  std::vector<char32_t> letters_;  // by number
  std::vector<uint64_t> letter_counts_;
  std::vector<std::string> required_;
  std::vector<uint32_t> text_;
  std::vector<CandidatePiece> pieces_;
  std::vector<double> log_p_;
  UnigramLattice lattice_;
};

}  // namespace

Result<TrainedUnigram> train_unigram(const std::vector<WordCount>& words, const UnigramSettings& settings,
                                     ThreadPool& pool,
                                     const std::function<void(size_t, size_t, double)>& progress) {
  if (settings.max_piece_length < 1 || settings.max_piece_length > kMaxPieceLength)
    return error_at("max_piece_length", "expected 1 to {}, got {}", kMaxPieceLength,
                    settings.max_piece_length);
  if (!(settings.shrinking_factor > 0 && settings.shrinking_factor < 1))
    return error_at("shrinking_factor", "expected a number between 0 and 1, got {}",
                    settings.shrinking_factor);
  uint64_t characters = 0;
  for (const WordCount& w : words) characters += w.word.size() + 1;
  if (characters >= UINT32_MAX)
    return error_of(Error::Kind::kLimit, "words",
                    "{} bytes of distinct words; the limit is 4 GiB: lower the memory limit or use a sample",
                    characters);
  return UnigramTrainer(settings, pool).run(words, progress);
}

}  // namespace makar
