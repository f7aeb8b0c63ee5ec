#include "retrieval/answer_eval.h"

#include <cmath>

#include "llm/loglikelihood.h"
#include "retrieval/chunker.h"

namespace makar {
namespace {

constexpr size_t kMaxSentences = 200;

std::vector<std::string> sentences_in(const std::string& text) {
  std::vector<std::string> out;
  for (const Span& span : sentences_of(text)) {
    std::string one = text.substr(span.begin, span.end - span.begin);
    while (!one.empty() && (one.back() == ' ' || one.back() == '\n')) one.pop_back();
    if (!one.empty() && out.size() < kMaxSentences) out.push_back(std::move(one));
  }
  return out;
}

std::string context_of(const std::vector<SearchHit>& passages) {
  std::string out;
  for (const SearchHit& hit : passages) out += hit.chunk.text + "\n\n";
  return out;
}

// The share of sentences that the judge finds in the context.
Result<double> supported_share(const std::string& text, const std::string& context, const YesNoJudge& judge) {
  const std::vector<std::string> sentences = sentences_in(text);
  if (sentences.empty()) return 0.0;
  std::vector<std::string> prompts;
  for (const std::string& one : sentences)
    prompts.push_back(context + "Statement: " + one +
                      "\nDoes the text above support the statement? Answer yes or no.\nAnswer:");
  MAKAR_TRY(const auto verdicts, judge(prompts));
  double yes = 0;
  for (const double one : verdicts) yes += one >= 0.5 ? 1 : 0;
  return yes / static_cast<double>(sentences.size());
}

}  // namespace

YesNoJudge likelihood_judge(Engine& engine, const LanguageModel& language) {
  return [&](const std::vector<std::string>& prompts) -> Result<std::vector<double>> {
    std::vector<ContextAndContinuation> texts;
    for (const std::string& prompt : prompts)
      for (const char* word : {" yes", " no"}) texts.push_back({prompt, word});
    const auto scores = loglikelihood(engine, language, texts);
    std::vector<double> out;
    for (size_t i = 0; i + 1 < scores.size(); i += 2) {
      if (!scores[i].ok()) return scores[i].error();
      if (!scores[i + 1].ok()) return scores[i + 1].error();
      out.push_back(1 / (1 + std::exp(scores[i + 1]->logprob - scores[i]->logprob)));
    }
    return out;
  };
}

std::string relevance_prompt(const std::string& question, const std::string& answer) {
  return "Question: " + question + "\nAnswer: " + answer +
         "\nDoes this answer the question? Answer yes or no.\nAnswer:";
}

Result<AnswerScores> score_answer(const std::string& question, const std::string& reference,
                                  const std::string& answer, const std::vector<SearchHit>& passages,
                                  const YesNoJudge& judge) {
  AnswerScores out;
  const std::string context = context_of(passages);
  if (!passages.empty()) {
    std::vector<std::string> prompts;
    for (const SearchHit& hit : passages)
      prompts.push_back(hit.chunk.text + "\n\nQuestion: " + question +
                        (reference.empty() ? "" : "\nCorrect answer: " + reference) +
                        "\nIs the text above useful for this answer? Answer yes or no.\nAnswer:");
    MAKAR_TRY(const auto useful, judge(prompts));
    double found = 0, sum = 0;
    for (size_t i = 0; i < useful.size(); ++i)
      if (useful[i] >= 0.5) sum += ++found / static_cast<double>(i + 1);
    out.context_precision = found > 0 ? sum / found : 0;
    MAKAR_TRY(out.context_recall, supported_share(reference, context, judge));
    MAKAR_TRY(out.faithfulness, supported_share(answer, context, judge));
  }
  if (!answer.empty()) {
    MAKAR_TRY(const auto verdict, judge({relevance_prompt(question, answer)}));
    out.answer_relevance = verdict.front();
  }
  return out;
}

}  // namespace makar
