#include "lexical/word2vec.h"

#include <atomic>
#include <mutex>
#include <queue>

#include "base/resident.h"
#include "lexical/word2vec_learner.h"

namespace makar {

SigmoidTable::SigmoidTable() {
  for (size_t i = 0; i < value_.size(); ++i) {
    const double x = (static_cast<double>(i) + 0.5) / 64 - 8;
    value_[i] = static_cast<float>(1 / (1 + std::exp(-x)));
    minus_log_[i] = static_cast<float>(std::log1p(std::exp(-x)));
  }
}

std::vector<uint32_t> word_rows(const std::string& word, uint32_t word_id, size_t words,
                                const Word2VecOptions& o) {
  std::vector<uint32_t> out = {word_id};
  add_ngram_rows(word, words, o, out);
  return out;
}

std::vector<HuffmanPath> huffman_paths(const std::vector<uint64_t>& counts) {
  const size_t n = counts.size();
  std::vector<HuffmanPath> out(n);
  if (n < 2) return out;
  using Node = std::pair<uint64_t, uint32_t>;  // count, number: words, then inner nodes as they are created
  std::priority_queue<Node, std::vector<Node>, std::greater<>> queue;
  for (uint32_t i = 0; i < n; ++i) queue.push({counts[i], i});
  std::vector<uint32_t> parent(2 * n - 1);
  std::vector<bool> right(2 * n - 1);
  for (auto node = static_cast<uint32_t>(n); node < 2 * n - 1; ++node) {
    const Node a = queue.top();
    queue.pop();
    const Node b = queue.top();
    queue.pop();
    parent[a.second] = parent[b.second] = node;
    right[b.second] = true;
    queue.push({a.first + b.first, node});
  }
  const auto root = static_cast<uint32_t>(2 * n - 2);
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t at = i; at != root; at = parent[at]) {
      out[i].nodes.push_back(parent[at] - static_cast<uint32_t>(n));
      out[i].right.push_back(right[at]);
    }
    std::reverse(out[i].nodes.begin(), out[i].nodes.end());
    std::reverse(out[i].right.begin(), out[i].right.end());
  }
  return out;
}

namespace {

constexpr uint64_t kChunkWords = 1000;  // words that are learned in order
// A round is the chunks that are learned in parallel. A text of n words has n / kWordsPerParallelChunk chunks
// per round, at least 1 and at most kMaxParallelChunks; with 1, the text is learned in order.
constexpr uint64_t kWordsPerParallelChunk = 100'000, kMaxParallelChunks = 8;
constexpr uint32_t kRowParts = 8;     // parts of the rows that get the changes of a round in parallel
constexpr float kStepPerRate = 0.1f;  // how far one use moves a row, in units of the learning rate (share_of)

Word2VecShared prepare(const WordStream& text, const Word2VecOptions& o) {
  Word2VecShared s{o,
                   text.words.size(),
                   padded(static_cast<size_t>(o.width)),
                   o.model == "cbow",
                   o.loss == "ns",
                   o.loss == "hs",
                   {},
                   {},
                   {},
                   {},
                   {}};
  std::vector<double> weights;
  for (const uint64_t count : text.counts) {
    const double share = static_cast<double>(count) / static_cast<double>(text.tokens);
    const double ratio = o.subsample > 0 ? o.subsample / share : 1;
    s.keep.push_back(static_cast<float>(std::min(1.0, std::sqrt(ratio) + ratio)));
    weights.push_back(std::pow(static_cast<double>(count), 0.75));
  }
  if (o.loss == "ns") s.negatives = AliasTable(weights);
  if (o.loss == "hs") s.paths = huffman_paths(text.counts);
  if (o.max_ngram > 0)
    for (uint32_t i = 0; i < text.words.size(); ++i)
      s.rows.push_back(word_rows(text.words.word(i), i, text.words.size(), o));
  return s;
}

class Trainer {
 public:
  Trainer(const WordStream& text, const Word2VecOptions& o, ThreadPool& pool, const ShowProgress& show)
      : text_(text), o_(o), pool_(pool), show_(show), shared_(prepare(text, o)) {
    const size_t rows = text.words.size() + (o.max_ngram > 0 ? static_cast<size_t>(o.buckets) : 0);
    in_ = RowMatrix(rows, shared_.stride), out_ = RowMatrix(text.words.size(), shared_.stride);
    const Rng rng(static_cast<uint64_t>(o.seed), Purpose::kInit);
    const auto width = static_cast<size_t>(o.width);
    pool.for_ranges(static_cast<int64_t>(rows), 256, [&](int64_t from, int64_t end) {
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(end); ++i)
        for (size_t j = 0; j < width; ++j)
          in_.row(i)[j] = (2 * rng.uniform(i * width + j) - 1) / static_cast<float>(width);
    });
    chunks_ = (text.size + kChunkWords - 1) / kChunkWords;
    total_ = chunks_ * static_cast<uint64_t>(o.epochs);
  }

  WordVectors train() {
    o_.fast ? train_without_locks() : train_in_rounds();
    WordVectors out{text_.words, static_cast<size_t>(o_.width),
                    RowMatrix(text_.words.size(), shared_.stride)};
    for (uint32_t i = 0; i < text_.words.size(); ++i)
      add_mean(in_, shared_.rows.empty() ? std::vector{i} : shared_.rows[i], out.rows.row(i));
    if (o_.max_ngram > 0)
      out.subwords = std::make_shared<SubwordVectors>(
          SubwordVectors{o_, text_.counts, text_.tokens, 1, std::move(in_), std::move(out_)});
    return out;
  }

 private:
  // The learning rate after `done` chunks: it falls linearly to 0.
  float rate_at(uint64_t done) const {
    return static_cast<float>(o_.learning_rate *
                              (1 - static_cast<double>(done) / static_cast<double>(total_)));
  }
  template <class Learner>
  void learn(Learner& learner, uint64_t index, float rate) {
    const uint64_t epoch = index / chunks_, chunk = index % chunks_;
    learner.learn(text_.tokens_of_chunk(chunk, kChunkWords), rate,
                  FastRandom(static_cast<uint64_t>(o_.seed), epoch, chunk));
  }
  void report(uint64_t done) {
    show_({done * kChunkWords, total_ * kChunkWords, loss_ / std::max(1.0, examples_), rate_at(done)});
    loss_ = examples_ = 0;
  }
  template <class Learner>
  void add_loss(Learner& learner) {
    loss_ += learner.take_loss(), examples_ += static_cast<double>(learner.take_examples());
  }

  void train_in_rounds() {
    const uint64_t parallel_chunks =
        std::clamp<uint64_t>(text_.tokens / kWordsPerParallelChunk, 1, kMaxParallelChunks);
    if (parallel_chunks == 1) {
      Word2VecLearner<SharedRows> learner(shared_, in_, out_);
      for (uint64_t i = 0; i < total_; ++i) {
        learn(learner, i, rate_at(i));
        add_loss(learner);
        report(i + 1);
      }
      return;
    }
    std::vector<std::unique_ptr<Word2VecLearner<PrivateRows>>> learners;
    std::vector<RowUses> in_uses(in_.rows()), out_uses(out_.rows());
    for (uint64_t i = 0; i < parallel_chunks; ++i)
      learners.push_back(std::make_unique<Word2VecLearner<PrivateRows>>(shared_, in_, out_));
    for (uint64_t from = 0; from < total_; from += parallel_chunks) {
      const uint64_t count = std::min(parallel_chunks, total_ - from);
      pool_.run(static_cast<int64_t>(count), [&](int64_t i) {
        auto& learner = *learners[static_cast<size_t>(i)];
        learn(learner, from + static_cast<uint64_t>(i), rate_at(from));
        learner.in.finish(), learner.out.finish();
      });
      // Each part of the rows gets the changes of all chunks in their order.
      const float step = kStepPerRate * rate_at(from);
      pool_.run(kRowParts, [&](int64_t part) {
        const auto p = static_cast<uint32_t>(part);
        add_changes(
            learners, count, [](auto& l) -> PrivateRows& { return l.in; }, in_, in_uses, step, p, kRowParts);
        add_changes(
            learners, count, [](auto& l) -> PrivateRows& { return l.out; }, out_, out_uses, step, p,
            kRowParts);
      });
      for (uint64_t i = 0; i < count; ++i)
        learners[i]->in.clear(), learners[i]->out.clear(), add_loss(*learners[i]);
      report(from + count);
    }
  }

  // Updates of rows take no lock; the mutex is for the sums of report().
  void train_without_locks() {
    std::atomic<uint64_t> next = 0;
    std::mutex mutex;
    pool_.run(pool_.threads(), [&](int64_t) {
      Word2VecLearner<SharedRows> learner(shared_, in_, out_);
      for (uint64_t i = next++; i < total_; i = next++) {
        learn(learner, i, rate_at(i));
        if (i % 16 != 0) continue;
        const std::lock_guard lock(mutex);
        add_loss(learner);
        report(i + 1);
      }
    });
  }

  const WordStream& text_;
  const Word2VecOptions& o_;
  ThreadPool& pool_;
  const ShowProgress& show_;
  Word2VecShared shared_;
  RowMatrix in_, out_;
  uint64_t chunks_ = 0, total_ = 0;
  double loss_ = 0, examples_ = 0;
};

}  // namespace

Result<WordVectors> train_word2vec(const WordStream& text, const Word2VecOptions& options, ThreadPool& pool,
                                   const ShowProgress& show) {
  MAKAR_RETURN_IF_ERROR(check(options));
  const double rows = 2 * static_cast<double>(text.words.size()) +
                      (options.max_ngram > 0 ? static_cast<double>(options.buckets) : 0.0);
  const double bytes = rows * static_cast<double>(padded(static_cast<size_t>(options.width))) * sizeof(float);
  if (const auto limit = static_cast<double>(memory_limit()); bytes > limit)
    return error_of(
        Error::Kind::kLimit, options.max_ngram > 0 ? "`bucket`" : "`dim`",
        "the vectors take {:.1f} GB, but this process may use {:.1f} GB; lower `dim`{} or `max_words`",
        bytes / 1e9, limit / 1e9, options.max_ngram > 0 ? ", `bucket`" : "");
  return Trainer(text, options, pool, show).train();
}

}  // namespace makar
