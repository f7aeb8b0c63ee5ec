#include "infer/encode_job.h"

namespace makar {

EncodeJob::EncodeJob(std::vector<int64_t> tokens, std::vector<int64_t> types)
    : tokens_(static_cast<int64_t>(tokens.size())) {
  check(tokens_ > 0 && (types.empty() || types.size() == tokens.size()),
        "a text needs tokens, and one type per token if types are given");
  Branch branch;
  branch.tokens = std::move(tokens);
  branch.types = std::move(types);
  branches.push_back(std::move(branch));
}

void EncodeJob::on_hidden(size_t, int64_t, std::span<const float> hidden) {
  states_.insert(states_.end(), hidden.begin(), hidden.end());
}

Tensor EncodeJob::states() const {
  return Tensor::from({tokens_, static_cast<int64_t>(states_.size()) / tokens_}, states_);
}

}  // namespace makar
