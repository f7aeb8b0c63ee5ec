#include "eval/controlled.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "base/quote.h"
#include "metrics/diversity.h"
#include "text/unicode.h"

namespace makar {
namespace {

// The difference between the seeds of two attempts; larger than the number of repeats of a task, whose seeds
// are consecutive.
constexpr uint64_t kAttemptSeedStep = 1'000'003;

Result<std::vector<std::string>> texts_for(EvalModel& model, const std::vector<UntilRequest>& requests) {
  std::vector<std::string> out;
  for (auto& one : model.generate_until(requests)) {
    if (!one.ok()) return one.error();
    out.push_back(to_valid_utf8(*one));
  }
  return out;
}

class Controller {
 public:
  Controller(EvalModel& model, std::span<const UntilRequest> requests, const ToxicityClassifier& classifier,
             const ControlOptions& options)
      : model_(model), requests_(requests), classifier_(classifier), o_(options), answers_(requests.size()) {}

  Result<std::vector<ControlledAnswer>> run() {
    MAKAR_RETURN_IF_ERROR(o_.mode == "steer" ? steer() : sample_answers());
    return std::move(answers_);
  }

 private:
  // Generates answers to the requests `open`; keeps those that are less toxic than the current ones.
  Status generate(const std::vector<size_t>& open, const std::function<UntilRequest(size_t)>& request,
                  bool first) {
    std::vector<UntilRequest> batch;
    for (const size_t i : open) batch.push_back(request(i));
    MAKAR_TRY(const auto texts, texts_for(model_, batch));
    for (size_t n = 0; n < open.size(); ++n) {
      ControlledAnswer& answer = answers_[open[n]];
      const double toxicity = classifier_.toxicity(texts[n]);
      if (!first) ++answer.attempts;
      if (first || toxicity < answer.toxicity) answer.text = texts[n], answer.toxicity = toxicity;
    }
    return Done{};
  }

  std::vector<size_t> toxic_answers() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < answers_.size(); ++i)
      if (answers_[i].toxicity >= o_.threshold) out.push_back(i);
    return out;
  }

  void reject_toxic() {
    for (const size_t i : toxic_answers())
      answers_[i].rejected = true, answers_[i].text.clear(), answers_[i].toxicity = 0;
  }

  // For all modes but steer.
  Status sample_answers() {
    std::vector<size_t> open(requests_.size());
    for (size_t i = 0; i < open.size(); ++i) open[i] = i;
    MAKAR_RETURN_IF_ERROR(generate(
        open, [&](size_t i) { return requests_[i]; }, true));
    if (o_.mode == "none") return Done{};
    for (int64_t attempt = 1; attempt < o_.attempts; ++attempt) {
      open = toxic_answers();
      if (open.empty()) return Done{};
      MAKAR_RETURN_IF_ERROR(generate(
          open,
          [&](size_t i) {
            UntilRequest next = o_.mode == "rewrite" ? rewriting(i) : requests_[i];
            next.seed += kAttemptSeedStep * static_cast<uint64_t>(attempt);
            if (next.temperature == 0) next.temperature = 1;
            return next;
          },
          false));
    }
    reject_toxic();
    return Done{};
  }

  UntilRequest rewriting(size_t i) const {
    const std::string instruction =
        "Rewrite the following text so that it is polite and respectful and keeps its meaning.";
    UntilRequest out = requests_[i];
    if (out.messages.is_null()) {
      out.prompt = instruction + "\n\nText: " + answers_[i].text + "\n\nRewritten text:";
      out.until.emplace_back("\n");
    } else {
      out.messages = Json::array({{{"role", "user"}, {"content", instruction + "\n\n" + answers_[i].text}}});
    }
    return out;
  }

  // Extends the answers block by block. Only for text prompts: a chat template cannot continue a partial
  // answer.
  Status steer() {
    std::vector<size_t> open;
    std::vector<int64_t> tokens_left(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (!requests_[i].messages.is_null())
        return error_of(
            Error::Kind::kUnsupported, "steer",
            "answers in a conversation cannot be continued by blocks; use reject or rewrite, or leave "
            "out --apply-chat-template");
      open.push_back(i), tokens_left[i] = requests_[i].max_tokens;
      answers_[i].attempts = 0;
    }
    for (uint64_t round = 0; !open.empty(); ++round) {
      std::vector<UntilRequest> batch;
      for (const size_t i : open)
        for (int64_t c = 0; c < o_.candidates; ++c) {
          UntilRequest part = requests_[i];
          part.prompt += answers_[i].text;
          part.max_tokens = std::min(o_.block, tokens_left[i]);
          part.seed +=
              kAttemptSeedStep * (round * static_cast<uint64_t>(o_.candidates) + static_cast<uint64_t>(c));
          if (part.temperature == 0 && c > 0) part.temperature = 1;
          batch.push_back(std::move(part));
        }
      const auto blocks = model_.generate_block(batch);
      std::vector<size_t> unfinished;
      for (size_t n = 0; n < open.size(); ++n) {
        MAKAR_TRY(const bool unfinished_answer,
                  grow(open[n], std::span(blocks).subspan(n * static_cast<size_t>(o_.candidates),
                                                          static_cast<size_t>(o_.candidates))));
        tokens_left[open[n]] -= o_.block;
        if (unfinished_answer && tokens_left[open[n]] > 0) unfinished.push_back(open[n]);
      }
      open = std::move(unfinished);
    }
    for (ControlledAnswer& one : answers_) one.text = to_valid_utf8(one.text);
    reject_toxic();
    return Done{};
  }

  // Adds the least toxic candidate; false if it ends the answer.
  Result<bool> grow(size_t i, std::span<const Result<UntilAnswer>> blocks) {
    ControlledAnswer& answer = answers_[i];
    const UntilAnswer* best = nullptr;
    double min = 0;
    for (const auto& one : blocks) {
      if (!one.ok()) return one.error();
      ++answer.attempts;
      const double toxicity = classifier_.toxicity(answer.text + one->text);
      if (!best || toxicity < min) best = &*one, min = toxicity;
    }
    answer.text += best->text, answer.toxicity = min;
    return !best->ended;
  }

  EvalModel& model_;
  std::span<const UntilRequest> requests_;
  const ToxicityClassifier& classifier_;
  const ControlOptions& o_;
  std::vector<ControlledAnswer> answers_;
};

}  // namespace

std::vector<std::string> control_modes() { return {"none", "reject", "rewrite", "steer"}; }

Status check_control(const ControlOptions& o) {
  const auto known = control_modes();
  if (std::find(known.begin(), known.end(), o.mode) == known.end())
    return error_at("--control", "unknown mode {}{}; expected {}", quote(o.mode), did_you_mean(o.mode, known),
                    fmt::join(known, ", "));
  if (!(o.threshold > 0 && o.threshold <= 1))
    return error_at("--threshold", "must be above 0 and at most 1, got {}", o.threshold);
  if (o.attempts < 1 || o.attempts > 100)
    return error_at("--attempts", "must be 1 to 100, got {}", o.attempts);
  if (o.block < 1 || o.block > 1024) return error_at("--block", "must be 1 to 1024, got {}", o.block);
  if (o.candidates < 1 || o.candidates > 100)
    return error_at("--candidates", "must be 1 to 100, got {}", o.candidates);
  return Done{};
}

Result<std::vector<ControlledAnswer>> controlled_answers(EvalModel& model,
                                                         std::span<const UntilRequest> requests,
                                                         const ToxicityClassifier& classifier,
                                                         const ControlOptions& options) {
  MAKAR_RETURN_IF_ERROR(check_control(options));
  return Controller(model, requests, classifier, options).run();
}

Result<Json> control_summary(EvalModel& model, std::span<const UntilRequest> requests,
                             const std::vector<ControlledAnswer>& answers, double threshold) {
  double toxicity = 0, toxic = 0, rejected = 0, attempts = 0, words = 0, bits = 0, bytes = 0;
  std::vector<LikelihoodRequest> likelihood_requests;
  std::vector<std::string> texts;
  for (size_t i = 0; i < answers.size(); ++i) {
    const ControlledAnswer& one = answers[i];
    toxicity += one.toxicity, toxic += one.toxicity >= threshold, rejected += one.rejected;
    attempts += static_cast<double>(one.attempts);
    if (one.text.empty()) continue;
    texts.push_back(one.text);
    words += static_cast<double>(std::count(one.text.begin(), one.text.end(), ' ') + 1);
    likelihood_requests.push_back({requests[i].prompt, one.text, requests[i].messages});
  }
  for (const auto& one : model.loglikelihood(likelihood_requests)) {
    if (!one.ok()) return one.error();
    bits -= one->logprob / std::log(2.0);
  }
  for (const std::string& text : texts) bytes += static_cast<double>(text.size());
  const auto mean = [](double sum, size_t count) {
    return count == 0 ? Json() : Json(sum / static_cast<double>(count));
  };
  Json out = {{"answers", answers.size()},
              {"toxicity", mean(toxicity, answers.size())},
              {"toxic", mean(toxic, answers.size())},
              {"rejected", mean(rejected, answers.size())},
              {"attempts", mean(attempts, answers.size())},
              {"words", mean(words, texts.size())},
              {"bits_per_byte", bytes > 0 ? Json(bits / bytes) : Json()}};
  out["distinct_2"] = texts.empty() ? Json() : Json(evaluate_distinct(texts, 2, {}).score);
  return out;
}

}  // namespace makar
