#include "llm/bayes_risk.h"

#include <cmath>

namespace makar {
namespace {

template <class Fn>
std::vector<double> mean_similarities(size_t count, const Fn& similarity) {
  std::vector<double> out;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (size_t j = 0; j < count; ++j)
      if (j != i) sum += similarity(i, j);
    out.push_back(count > 1 ? sum / static_cast<double>(count - 1) : 0);
  }
  return out;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 0;
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    dot += x * y, aa += x * x, bb += y * y;
  }
  return aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : 0;
}

}  // namespace

std::vector<double> expected_overlap(Overlap kind, const std::vector<std::string>& texts) {
  std::vector<OverlapText> prepared;
  for (const std::string& text : texts) prepared.push_back(prepare_overlap(kind, text));
  return mean_similarities(texts.size(),
                           [&](size_t i, size_t j) { return overlap(kind, prepared[i], prepared[j]); });
}

Result<std::vector<double>> expected_cosine(Embedder& embedder, const std::vector<std::string>& texts) {
  std::vector<std::string> nonempty;
  for (const std::string& text : texts)
    if (!text.empty()) nonempty.push_back(text);
  std::vector<std::vector<float>> vectors(texts.size());
  if (!nonempty.empty()) {
    MAKAR_TRY(const Tensor rows, embedder(nonempty));
    const auto width = static_cast<size_t>(rows.dim(1));
    size_t row = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].empty()) continue;
      const auto one = rows.span().subspan(row++ * width, width);
      vectors[i].assign(one.begin(), one.end());
    }
  }
  return mean_similarities(texts.size(), [&](size_t i, size_t j) { return cosine(vectors[i], vectors[j]); });
}

}  // namespace makar
