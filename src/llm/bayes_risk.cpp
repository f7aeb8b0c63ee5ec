#include "llm/bayes_risk.h"

namespace makar {

std::vector<double> expected_overlap(Overlap kind, const std::vector<std::string>& texts) {
  std::vector<OverlapText> prepared;
  for (const std::string& text : texts) prepared.push_back(prepare_overlap(kind, text));
  std::vector<double> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < texts.size(); ++j)
      if (j != i) sum += overlap(kind, prepared[i], prepared[j]);
    out.push_back(texts.size() > 1 ? sum / static_cast<double>(texts.size() - 1) : 0);
  }
  return out;
}

}  // namespace makar
