#include "lexical/ngram_generate.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace makar {

uint32_t NgramGenerator::draw(const NgramModel::State& state, const NgramSampling& s, double uniform) {
  model_.distribution(state, index_, probs_);
  probs_[model_.unknown()] = 0;
  order_.clear();
  for (uint32_t i = 0; i < probs_.size(); ++i)
    if (probs_[i] > 0) order_.push_back(i);
  if (order_.empty()) return model_.end();
  const auto more_likely = [&](uint32_t a, uint32_t b) {
    return probs_[a] != probs_[b] ? probs_[a] > probs_[b] : a < b;
  };
  if (s.temperature == 0) return *std::min_element(order_.begin(), order_.end(), more_likely);
  if (s.top_k > 0 && static_cast<size_t>(s.top_k) < order_.size()) {
    std::partial_sort(order_.begin(), order_.begin() + s.top_k, order_.end(), more_likely);
    order_.resize(static_cast<size_t>(s.top_k));
  }
  double max = 0, sum = 0;
  for (const uint32_t i : order_) max = std::max(max, probs_[i]);
  for (const uint32_t i : order_) {
    if (s.temperature != 1) probs_[i] = std::exp(std::log(probs_[i] / max) / s.temperature);
    sum += probs_[i];
  }
  double left = uniform * sum;
  for (const uint32_t i : order_)
    if ((left -= probs_[i]) < 0) return i;
  return order_.back();
}

std::vector<std::string> NgramGenerator::generate(const std::vector<std::string_view>& prompt,
                                                  const NgramSampling& s, uint64_t number) {
  NgramModel::State state = model_.start();
  for (const std::string_view word : prompt) model_.step(state, model_.id(word));
  const Rng rng(s.seed, Purpose::kSample, number);
  std::vector<std::string> out;
  for (int64_t i = 0; i < s.max_words; ++i) {
    const uint32_t word = draw(state, s, rng.uniform_double(static_cast<uint64_t>(i)));
    if (word == model_.end()) break;
    out.push_back(model_.words().word(word));
    model_.step(state, word);
  }
  return out;
}

}  // namespace makar
