#include "eval/model.h"

namespace makar {

std::vector<Result<UntilAnswer>> EvalModel::generate_block(std::span<const UntilRequest> requests) {
  std::vector<Result<UntilAnswer>> out;
  for (auto& one : generate_until(requests))
    if (one.ok())
      out.emplace_back(UntilAnswer{*one, one->empty()});
    else
      out.emplace_back(one.error());
  return out;
}

}  // namespace makar
