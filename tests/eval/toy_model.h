// A model whose answers follow from the request by simple rules, so that scores can be computed by hand.
#pragma once
#include <cmath>
#include <map>

#include "eval/model.h"

namespace makar {

class ToyModel : public EvalModel {
 public:
  // Log-likelihoods of continuations; any other has -1 per byte. A continuation with "greedy" in it is
  // greedy.
  std::map<std::string, double> logprobs;
  std::map<std::string, std::string> answers;  // by the last line of the prompt
  int64_t request_count = 0;                   // so far
  int64_t fail_after = -1;                     // every request after this many fails; -1: none

  std::vector<Result<Loglikelihood>> loglikelihood(std::span<const LikelihoodRequest> requests) override {
    std::vector<Result<Loglikelihood>> out;
    for (const auto& one : requests) {
      if (failed()) {
        out.emplace_back(error_at("toy", "fails"));
        continue;
      }
      contexts.push_back(one.messages.is_null() ? one.context : one.messages.dump());
      Loglikelihood value;
      const auto at = logprobs.find(one.continuation);
      value.logprob = at != logprobs.end() ? at->second : -static_cast<double>(one.continuation.size());
      value.is_greedy = one.continuation.find("greedy") != std::string::npos;
      value.tokens = 1;
      out.emplace_back(value);
    }
    return out;
  }
  std::vector<Result<Loglikelihood>> loglikelihood_rolling(std::span<const std::string> texts) override {
    std::vector<Result<Loglikelihood>> out;
    for (const std::string& text : texts) {
      ++request_count;
      Loglikelihood value;
      value.logprob = -std::log(2.0) * static_cast<double>(text.size());
      out.emplace_back(value);
    }
    return out;
  }
  std::vector<Result<std::string>> generate_until(std::span<const UntilRequest> requests) override {
    std::vector<Result<std::string>> out;
    for (const auto& one : requests) {
      ++request_count;
      contexts.push_back(one.messages.is_null() ? one.prompt : one.messages.dump());
      out.emplace_back(answers[one.prompt.substr(one.prompt.rfind('\n') + 1)]);
    }
    return out;
  }
  Json identity() const override { return {{"model", "toy"}}; }
  std::vector<std::string> contexts;

 private:
  bool failed() { return ++request_count > fail_after && fail_after >= 0; }
};

}  // namespace makar
