#include "text/train/unigram_lattice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace makar {
namespace {

constexpr double kLogZero = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kLogZero ? a : a + std::log1p(std::exp(b - a));
}

// Visits the edges that start at character `at`: its pieces, and piece 0 (unknown) if none has one character.
template <class Visit>
void each_edge(const UnigramLattice& l, size_t at, Visit visit) {
  const uint64_t begin = l.edge_starts[at], end = l.edge_starts[at + 1];
  if (begin == end || l.edges[begin].length != 1) visit(0u, 1u);
  for (uint64_t e = begin; e < end; ++e) visit(l.edges[e].piece, l.edges[e].length);
}

struct Scratch {
  std::vector<double> forward, backward;
  std::vector<uint32_t> from, piece;
};

// The E step of one word with sums of products of probabilities; false when they underflow (very long words).
bool expect_plain(const UnigramLattice& l, size_t w, const std::vector<double>& p, Scratch& s,
                  std::vector<double>& expected, double* log_z) {
  const size_t begin = l.starts[w], n = l.starts[w + 1] - 1 - begin;
  s.forward.assign(n + 1, 0.0), s.backward.assign(n + 1, 0.0);
  s.forward[0] = 1, s.backward[n] = 1;
  for (size_t i = 0; i < n; ++i)
    each_edge(l, begin + i,
              [&](uint32_t piece, uint32_t length) { s.forward[i + length] += s.forward[i] * p[piece]; });
  const double z = s.forward[n];
  if (!(z > 1e-250)) return false;
  const double weight = static_cast<double>(l.counts[w]) / z;
  for (size_t i = n; i-- > 0;)
    each_edge(l, begin + i, [&](uint32_t piece, uint32_t length) {
      const double tail = p[piece] * s.backward[i + length];
      s.backward[i] += tail;
      expected[piece] += s.forward[i] * tail * weight;
    });
  *log_z = std::log(z);
  return true;
}

// The same with logarithms, for words on which expect_plain() underflows.
void expect_logs(const UnigramLattice& l, size_t w, const std::vector<double>& log_p, Scratch& s,
                 std::vector<double>& expected, double* log_z) {
  const size_t begin = l.starts[w], n = l.starts[w + 1] - 1 - begin;
  s.forward.assign(n + 1, kLogZero), s.backward.assign(n + 1, kLogZero);
  s.forward[0] = 0, s.backward[n] = 0;
  for (size_t i = 0; i < n; ++i)
    each_edge(l, begin + i, [&](uint32_t piece, uint32_t length) {
      s.forward[i + length] = log_add(s.forward[i + length], s.forward[i] + log_p[piece]);
    });
  const double z = s.forward[n];
  for (size_t i = n; i-- > 0;)
    each_edge(l, begin + i, [&](uint32_t piece, uint32_t length) {
      const double tail = log_p[piece] + s.backward[i + length];
      s.backward[i] = log_add(s.backward[i], tail);
      expected[piece] += static_cast<double>(l.counts[w]) * std::exp(s.forward[i] + tail - z);
    });
  *log_z = z;
}

std::vector<double> with_unknown(std::vector<double> log_p) {
  log_p[0] = unknown_log_p(log_p);
  return log_p;
}

}  // namespace

double unknown_log_p(const std::vector<double>& log_p) {
  double min = 0;
  for (size_t i = 1; i < log_p.size(); ++i) min = std::min(min, log_p[i]);
  return min - 10;
}

// The number of chunks depends only on the sizes, so the sums are the same for any number of threads.
template <class Work>
std::vector<double> UnigramLattice::sum_over_chunks(size_t pieces, ThreadPool& pool, double* extra,
                                                    Work work) const {
  const size_t words = counts.size(), chunks = pieces > 200'000 ? 4 : 16;
  std::vector<std::vector<double>> sums(chunks);
  std::vector<double> extras(chunks, 0.0);
  // Chunks have about the same number of characters.
  const size_t characters = starts.back();
  std::vector<size_t> bounds(chunks + 1, words);
  for (size_t c = 0; c < chunks; ++c)
    bounds[c] = static_cast<size_t>(
        std::lower_bound(starts.begin(), starts.end() - 1, characters * c / chunks) - starts.begin());
  pool.run(static_cast<int64_t>(chunks), [&](int64_t c) {
    Scratch scratch;
    sums[c].assign(pieces, 0.0);
    for (size_t w = bounds[c]; w < bounds[c + 1]; ++w) work(w, scratch, sums[c], extras[c]);
  });
  for (size_t c = 1; c < chunks; ++c) {
    for (size_t i = 0; i < pieces; ++i) sums[0][i] += sums[c][i];
    extras[0] += extras[c];
  }
  if (extra) *extra = extras[0];
  return std::move(sums[0]);
}

std::vector<double> UnigramLattice::expected_counts(const std::vector<double>& piece_log_p, ThreadPool& pool,
                                                    double* loss) const {
  const std::vector<double> log_p = with_unknown(piece_log_p);
  std::vector<double> p(log_p.size());
  for (size_t i = 0; i < p.size(); ++i) p[i] = std::exp(log_p[i]);
  double total = 0;
  for (const uint64_t c : counts) total += static_cast<double>(c);
  return sum_over_chunks(p.size(), pool, loss,
                         [&](size_t w, Scratch& s, std::vector<double>& expected, double& objective) {
                           double z = 0;
                           if (!expect_plain(*this, w, p, s, expected, &z))
                             expect_logs(*this, w, log_p, s, expected, &z);
                           objective -= z * static_cast<double>(counts[w]) / total;
                         });
}

std::vector<double> UnigramLattice::count_best(const std::vector<double>& piece_log_p,
                                               ThreadPool& pool) const {
  const std::vector<double> log_p = with_unknown(piece_log_p);
  return sum_over_chunks(
      log_p.size(), pool, nullptr, [&](size_t w, Scratch& s, std::vector<double>& counted, double&) {
        const size_t begin = starts[w], n = starts[w + 1] - 1 - begin;
        s.forward.assign(n + 1, kLogZero), s.from.assign(n + 1, 0), s.piece.assign(n + 1, 0);
        s.forward[0] = 0;
        for (size_t i = 0; i < n; ++i)
          each_edge(*this, begin + i, [&](uint32_t piece, uint32_t length) {
            const double score = s.forward[i] + log_p[piece];
            if (score > s.forward[i + length])
              s.forward[i + length] = score, s.from[i + length] = static_cast<uint32_t>(i),
                            s.piece[i + length] = piece;
          });
        for (size_t at = n; at > 0; at = s.from[at]) counted[s.piece[at]] += static_cast<double>(counts[w]);
      });
}

void UnigramLattice::renumber(const std::vector<uint32_t>& new_ids) {
  uint64_t out = 0, begin = 0;
  for (size_t at = 0; at + 1 < edge_starts.size(); ++at) {
    const uint64_t end = edge_starts[at + 1];
    for (uint64_t e = begin; e < end; ++e)
      if (new_ids[edges[e].piece] != UINT32_MAX) edges[out++] = {new_ids[edges[e].piece], edges[e].length};
    begin = end;
    edge_starts[at + 1] = out;
  }
  edges.resize(out);
  edges.shrink_to_fit();
}

}  // namespace makar
