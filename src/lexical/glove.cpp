#include "lexical/glove.h"

#include <atomic>
#include <cmath>
#include <mutex>

#include "data/permutation.h"

namespace makar {
namespace {

constexpr float kMeanStep = 1e6f;  // so large that share_of() averages the chunks' changes
// Entries per chunk; the most chunks per round, which are learned in parallel. A round has one chunk for each
// million entries, so that a small text is learned in order.
constexpr uint64_t kChunkEntries = 4096, kMaxRoundChunks = 8, kEntriesPerRoundChunk = 1'000'000;

// A row has the vector, the bias in a separate lane, and from `half` on the sums of squared gradients of
// both.
struct Layout {
  size_t width, bias, half;
  explicit Layout(size_t w) : width(padded(w)), bias(width), half(width + kLanes) {}
};

template <class Rows>
struct GloveLearner {
  GloveLearner(const Layout& l, const GloveOptions& o, RowMatrix& words, RowMatrix& contexts)
      : layout(l), options(o), word(words), context(contexts) {}

  void learn(const Cooccurrence& c) {
    float* w = word.row(c.word);
    float* v = context.row(c.context);
    const float error = dot(w, v, layout.width) + w[layout.bias] + v[layout.bias] - std::log(c.count);
    const double x = static_cast<double>(c.count);
    const auto weight =
        static_cast<float>(x < options.x_max ? std::pow(x / options.x_max, options.alpha) : 1.0);
    loss += 0.5 * static_cast<double>(weight * error * error);
    const float g = weight * error, rate = static_cast<float>(options.learning_rate);
    float *ws = w + layout.half, *vs = v + layout.half;
    for (size_t i = 0; i < layout.width; ++i) {
      const float gw = g * v[i], gv = g * w[i];
      w[i] -= rate * gw / std::sqrt(ws[i]);
      v[i] -= rate * gv / std::sqrt(vs[i]);
      ws[i] += gw * gw, vs[i] += gv * gv;
    }
    w[layout.bias] -= rate * g / std::sqrt(ws[layout.bias]);
    v[layout.bias] -= rate * g / std::sqrt(vs[layout.bias]);
    ws[layout.bias] += g * g, vs[layout.bias] += g * g;
  }

  const Layout& layout;
  const GloveOptions& options;
  Rows word, context;
  double loss = 0;
};

class GloveTrainer {
 public:
  GloveTrainer(const NumberedWords& words, std::span<const Cooccurrence> counts, const GloveOptions& o,
               ThreadPool& pool, const ShowProgress& show)
      : words_(words),
        counts_(counts),
        o_(o),
        pool_(pool),
        show_(show),
        layout_(static_cast<size_t>(o.width)) {
    const Rng rng(static_cast<uint64_t>(o.seed), Purpose::kInit);
    for (RowMatrix* m : {&word_, &context_}) {
      *m = RowMatrix(words.size(), 2 * layout_.half);
      for (size_t i = 0; i < m->rows(); ++i) {
        float* row = m->row(i);
        for (size_t j = 0; j <= static_cast<size_t>(o.width); ++j) {
          const size_t lane = j < static_cast<size_t>(o.width) ? j : layout_.bias;
          row[lane] =
              (rng.uniform(((m == &word_ ? 0 : words.size()) + i) * (static_cast<size_t>(o.width) + 1) + j) -
               0.5f) /
              static_cast<float>(o.width);
        }
        std::fill(row + layout_.half, row + 2 * layout_.half, 1.0f);
      }
    }
    chunks_ = (counts.size() + kChunkEntries - 1) / kChunkEntries;
    total_ = chunks_ * static_cast<uint64_t>(o.epochs);
  }

  WordVectors train() {
    if (o_.fast)
      train_without_locks();
    else
      train_in_rounds();
    WordVectors out{words_, static_cast<size_t>(o_.width), RowMatrix(words_.size(), layout_.width)};
    for (size_t i = 0; i < words_.size(); ++i)
      for (size_t j = 0; j < out.width; ++j) out.rows.row(i)[j] = word_.row(i)[j] + context_.row(i)[j];
    return out;
  }

 private:
  template <class Learner>
  void learn(Learner& learner, uint64_t index) const {
    const uint64_t epoch = index / chunks_, from = index % chunks_ * kChunkEntries;
    const Permutation order(counts_.size(), static_cast<uint64_t>(o_.seed), epoch);
    for (uint64_t i = from; i < std::min<uint64_t>(from + kChunkEntries, counts_.size()); ++i)
      learner.learn(counts_[order(i)]);
  }
  void report(uint64_t done, double& loss, uint64_t entries) {
    show_({done * kChunkEntries, total_ * kChunkEntries, loss / static_cast<double>(entries),
           o_.learning_rate});
    loss = 0;
  }

  void train_in_rounds() {
    const uint64_t round_chunks =
        std::clamp<uint64_t>(counts_.size() / kEntriesPerRoundChunk, 1, kMaxRoundChunks);
    std::vector<std::unique_ptr<GloveLearner<PrivateRows>>> learners;
    std::vector<RowUses> word_uses(words_.size()), context_uses(words_.size());
    for (uint64_t i = 0; i < round_chunks; ++i)
      learners.push_back(std::make_unique<GloveLearner<PrivateRows>>(layout_, o_, word_, context_));
    for (uint64_t from = 0; from < total_; from += round_chunks) {
      const uint64_t count = std::min(round_chunks, total_ - from);
      pool_.run(static_cast<int64_t>(count), [&](int64_t i) {
        auto& l = *learners[static_cast<size_t>(i)];
        learn(l, from + static_cast<uint64_t>(i));
        l.word.finish(), l.context.finish();
      });
      pool_.run(kMaxRoundChunks, [&](int64_t part) {
        const auto p = static_cast<uint32_t>(part);
        add_changes(
            learners, count, [](auto& l) -> PrivateRows& { return l.word; }, word_, word_uses, kMeanStep, p,
            kMaxRoundChunks);
        add_changes(
            learners, count, [](auto& l) -> PrivateRows& { return l.context; }, context_, context_uses,
            kMeanStep, p, kMaxRoundChunks);
      });
      double loss = 0;
      for (uint64_t i = 0; i < count; ++i) {
        learners[i]->word.clear(), learners[i]->context.clear();
        loss += std::exchange(learners[i]->loss, 0);
      }
      report(from + count, loss, count * kChunkEntries);
    }
  }

  void train_without_locks() {
    std::atomic<uint64_t> next = 0;
    std::mutex mutex;
    pool_.run(pool_.threads(), [&](int64_t) {
      GloveLearner<SharedRows> learner(layout_, o_, word_, context_);
      for (uint64_t i = next++; i < total_; i = next++) {
        learn(learner, i);
        if (i % 16 != 0) {
          learner.loss = 0;
          continue;
        }
        const std::lock_guard lock(mutex);
        report(i + 1, learner.loss, kChunkEntries);
      }
    });
  }

  const NumberedWords& words_;
  std::span<const Cooccurrence> counts_;
  const GloveOptions& o_;
  ThreadPool& pool_;
  const ShowProgress& show_;
  Layout layout_;
  RowMatrix word_, context_;
  uint64_t chunks_ = 0, total_ = 0;
};

}  // namespace

Result<WordVectors> train_glove(const NumberedWords& words, std::span<const Cooccurrence> counts,
                                const GloveOptions& options, ThreadPool& pool, const ShowProgress& show) {
  if (counts.empty()) return error_at("words", "no line has two words of the vocabulary; use more text");
  return GloveTrainer(words, counts, options, pool, show).train();
}

}  // namespace makar
