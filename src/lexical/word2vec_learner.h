// Learns from chunks of words: hidden vectors, the three losses and their gradients. `Rows` is SharedRows or
// PrivateRows.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>

#include "lexical/word2vec.h"
#include "lexical/word_sampling.h"

namespace makar {

// 1 / (1 + e^-x) and -log of it in steps of 1/64 between -8 and 8.
class SigmoidTable {
 public:
  SigmoidTable();
  float sigmoid(float x) const { return x >= 8 ? 1 : x <= -8 ? 0 : value_[index(x)]; }
  float minus_log(float x) const { return x >= 8 ? 0 : x <= -8 ? -x : minus_log_[index(x)]; }

 private:
  static size_t index(float x) { return static_cast<size_t>((x + 8) * 64); }
  std::array<float, 1025> value_, minus_log_;
};

// Read-only data of all learners.
struct Word2VecShared {
  const Word2VecOptions& options;
  size_t words, stride;
  bool cbow, negative_sampling, hierarchical;
  std::vector<float> keep;  // probability that subsampling keeps a word
  AliasTable negatives;
  std::vector<HuffmanPath> paths;
  std::vector<std::vector<uint32_t>> rows;  // of each word with its n-grams; empty: words have no n-grams
  SigmoidTable table;
};

template <class Rows>
class Word2VecLearner {
 public:
  Word2VecLearner(const Word2VecShared& shared, RowMatrix& input, RowMatrix& output)
      : s_(shared), in(input), out(output), hidden_(shared.stride), gradient_(shared.stride) {}

  void learn(std::span<const uint32_t> tokens, float rate, FastRandom random) {
    rate_ = rate, random_ = &random;
    for (size_t at = 0; at < tokens.size();) {
      line_.clear();
      for (; at < tokens.size() && tokens[at] != WordStream::kLineEnd; ++at)
        if (s_.options.subsample <= 0 || random.uniform() < s_.keep[tokens[at]]) line_.push_back(tokens[at]);
      ++at;
      s_.cbow ? cbow() : skipgram();
    }
  }
  double take_loss() { return std::exchange(loss_, 0); }
  uint64_t take_examples() { return std::exchange(examples_, 0); }

 private:
  // The range of words around `at`, in a window whose half width is drawn from 1 to `window`.
  std::pair<size_t, size_t> window(size_t at) {
    const size_t half = 1 + random_->below(static_cast<uint32_t>(s_.options.window));
    return {at >= half ? at - half : 0, std::min(line_.size(), at + half + 1)};
  }
  void add_word(uint32_t word) {
    if (s_.rows.empty())
      input_rows_.push_back(word);
    else
      input_rows_.insert(input_rows_.end(), s_.rows[word].begin(), s_.rows[word].end());
  }
  // The mean of the input rows.
  const float* hidden() {
    if (input_rows_.size() == 1) return in.row(input_rows_[0]);
    std::fill(hidden_.begin(), hidden_.end(), 0.0f);
    for (const uint32_t row : input_rows_) add_scaled(hidden_.data(), 1, in.row(row), s_.stride);
    const float scale = 1 / static_cast<float>(input_rows_.size());
    for (float& h : hidden_) h *= scale;
    return hidden_.data();
  }
  void apply_gradient() {
    for (const uint32_t row : input_rows_) add_scaled(in.row(row), 1, gradient_.data(), s_.stride);
  }

  void skipgram() {
    for (size_t at = 0; at < line_.size(); ++at) {
      input_rows_.clear();
      add_word(line_[at]);
      const auto [from, end] = window(at);
      for (size_t c = from; c < end; ++c)
        if (c != at) example(line_[c]);
    }
  }
  void cbow() {
    for (size_t at = 0; at < line_.size(); ++at) {
      input_rows_.clear();
      const auto [from, end] = window(at);
      for (size_t c = from; c < end; ++c)
        if (c != at) add_word(line_[c]);
      if (!input_rows_.empty()) example(line_[at]);
    }
  }

  void example(uint32_t target) {
    const float* h = hidden();
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    ++examples_;
    if (s_.negative_sampling)
      negative_sampling(h, target);
    else if (s_.hierarchical)
      hierarchical(h, target);
    else
      softmax(h, target);
    apply_gradient();
  }

  // One binary logistic regression step on an output row.
  void binary(const float* h, uint32_t row, bool label) {
    float* o = out.row(row);
    const float score = dot(h, o, s_.stride);
    const float g = rate_ * ((label ? 1.0f : 0.0f) - s_.table.sigmoid(score));
    loss_ += static_cast<double>(s_.table.minus_log(label ? score : -score));
    float* gradient = gradient_.data();
    for (size_t i = 0; i < s_.stride; ++i) {
      const float before = o[i];
      o[i] = before + g * h[i];
      gradient[i] += g * before;
    }
  }
  void negative_sampling(const float* h, uint32_t target) {
    binary(h, target, true);
    for (int64_t n = 0; n < s_.options.negatives; ++n) {
      const uint32_t word = s_.negatives.draw(*random_);
      if (word != target) binary(h, word, false);
    }
  }
  void hierarchical(const float* h, uint32_t target) {
    const HuffmanPath& path = s_.paths[target];
    for (size_t i = 0; i < path.nodes.size(); ++i) binary(h, path.nodes[i], path.right[i]);
  }
  void softmax(const float* h, uint32_t target) {
    scores_.resize(s_.words);
    float max = -1e30f;
    for (uint32_t w = 0; w < s_.words; ++w) max = std::max(max, scores_[w] = dot(h, out.row(w), s_.stride));
    double sum = 0;
    for (float& x : scores_) sum += static_cast<double>(x = std::exp(x - max));
    loss_ -= std::log(static_cast<double>(scores_[target]) / sum + 1e-30);
    const auto scale = static_cast<float>(1 / sum);
    for (uint32_t w = 0; w < s_.words; ++w) {
      const float g = rate_ * ((w == target ? 1.0f : 0.0f) - scores_[w] * scale);
      float* o = out.row(w);
      for (size_t i = 0; i < s_.stride; ++i) {
        const float before = o[i];
        o[i] = before + g * h[i];
        gradient_[i] += g * before;
      }
    }
  }

  const Word2VecShared& s_;

 public:
  Rows in, out;

 private:
  std::vector<float> hidden_, gradient_, scores_;
  std::vector<uint32_t> line_, input_rows_;
  FastRandom* random_ = nullptr;
  float rate_ = 0;
  double loss_ = 0;
  uint64_t examples_ = 0;
};

}  // namespace makar
