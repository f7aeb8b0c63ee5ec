#include "nn/batch.h"

namespace makar {

void Batch::add(const std::vector<int64_t>& ids, int64_t first_position) {
  sequences.push_back({rows(), static_cast<int64_t>(ids.size()), 0, sequences.size()});
  for (size_t i = 0; i < ids.size(); ++i) {
    tokens.push_back(ids[i]);
    positions.push_back(first_position + static_cast<int64_t>(i));
  }
}

}  // namespace makar
