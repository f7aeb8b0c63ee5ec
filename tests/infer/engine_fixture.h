// What the engine's tests share: the results of a job as numbers, and a small model.
#pragma once
#include <gtest/gtest.h>

#include "infer/decoding_job.h"
#include "infer/encode_job.h"
#include "infer/engine.h"
#include "infer/sample_job.h"
#include "infer/score_job.h"
#include "kernels/cpu_device.h"
#include "models/subjects.h"

namespace makar {

// All results of a job as numbers that can be compared bit for bit.
inline std::vector<double> transcript(const Job& job) {
  std::vector<double> out;
  if (job.error) return {-1};
  const auto add = [&](const Logprobs& l) {
    out.push_back(static_cast<double>(l.chosen));
    for (const auto& t : l.top)
      out.push_back(static_cast<double>(t.id)), out.push_back(static_cast<double>(t.logprob));
  };
  if (const auto* decoding = dynamic_cast<const DecodingJob*>(&job))
    for (const Answer& answer : decoding->answers()) {
      out.push_back(static_cast<double>(answer.finish)), out.push_back(answer.score);
      for (const auto& token : answer.tokens)
        out.push_back(static_cast<double>(token.id)), add(token.logprobs);
    }
  if (const auto* encode = dynamic_cast<const EncodeJob*>(&job)) {
    const Tensor states = encode->states();
    out.insert(out.end(), states.span().begin(), states.span().end());
  }
  if (const auto* score = dynamic_cast<const ScoreJob*>(&job))
    for (size_t c = 0; c < score->continuations(); ++c)
      for (const auto& l : score->scores(c)) add(l);
  return out;
}

class EngineTest : public testing::Test {
 protected:
  LoadedModel loaded_ = subject("small/llama");
  const Model& model_ = *loaded_.model;
  CpuDevice device_{2};
};

}  // namespace makar
