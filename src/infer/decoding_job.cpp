#include "infer/decoding_job.h"

#include <algorithm>
#include <cmath>

namespace makar {

bool DecodingRequest::stops(int64_t token) const {
  return std::find(stop.begin(), stop.end(), token) != stop.end();
}

std::vector<int64_t> Answer::ids() const {
  std::vector<int64_t> out;
  for (const GeneratedToken& token : tokens) out.push_back(token.id);
  return out;
}

double Answer::mean_logprob() const {
  if (tokens.empty()) return -INFINITY;
  double sum = 0;
  for (const GeneratedToken& token : tokens) sum += static_cast<double>(token.logprobs.chosen);
  return sum / static_cast<double>(tokens.size());
}

DecodingJob::DecodingJob(const DecodingRequest& request) {
  check(!request.prompt.empty() && request.answers > 0, "a request needs a prompt and at least one answer");
  if (request.max_new_tokens < 1) return;
  Branch branch;
  branch.tokens = request.prompt;
  branch.first_needed = branch.length() - 1;
  branches.push_back(std::move(branch));
}

}  // namespace makar
