#include "eval/consistency.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "metrics/words.h"
#include "text/unicode.h"

namespace makar {
namespace {

const std::vector<std::string> kYesNo = {"Yes", "No"};
constexpr int64_t kTokensPerQuestion = 32;

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : without_end_blanks(text.substr(begin));
}

// Lets the judge write questions that the text answers with yes: one per line of its answer.
Result<std::vector<std::string>> ask_questions(EvalModel& judge, const std::string& text, int64_t count,
                                               const JudgeOptions& o) {
  const std::string prompt = fmt::format(
      "[Text]\n{}\n\nWrite {} questions about facts of the text whose answer is yes. One question per line.",
      text, count);
  UntilRequest request;
  request.prompt = prompt + "\nQuestions:\n", request.until = {"\n\n"},
  request.max_tokens = count * kTokensPerQuestion, request.seed = o.seed;
  if (o.chat) request.messages = Json::array({{{"role", "user"}, {"content", to_valid_utf8(prompt)}}});
  const auto answers = judge.generate_until(std::span(&request, 1));
  if (!answers[0].ok()) return answers[0].error();
  std::vector<std::string> out;
  for (size_t at = 0; at < answers[0]->size() && out.size() < static_cast<size_t>(count);) {
    const size_t end = std::min(answers[0]->find('\n', at), answers[0]->size());
    if (std::string line = trimmed(answers[0]->substr(at, end - at)); !line.empty())
      out.push_back(std::move(line));
    at = end + 1;
  }
  return out;
}

Result<std::vector<bool>> answer_questions(EvalModel& judge, const std::string& text,
                                           const std::vector<std::string>& questions, const JudgeOptions& o) {
  std::vector<std::string> prompts;
  for (const std::string& question : questions)
    prompts.push_back(
        fmt::format("[Text]\n{}\n\n[Question]\n{}\n\nAnswer by the text alone: Yes or No.", text, question));
  MAKAR_TRY(const auto p, verdict_probabilities(judge, prompts, kYesNo, o));
  std::vector<bool> out;
  for (const auto& one : p) out.push_back(one[0] > one[1]);
  return out;
}

// Of the questions that `source` answers with yes, the share to which `other` answers yes; 0 without
// questions.
Result<double> shared_answers(EvalModel& judge, const std::string& source, const std::string& other,
                              const std::vector<std::string>& questions, const JudgeOptions& o) {
  MAKAR_TRY(const auto first, answer_questions(judge, source, questions, o));
  MAKAR_TRY(const auto second, answer_questions(judge, other, questions, o));
  double yes = 0, both = 0;
  for (size_t i = 0; i < first.size(); ++i) yes += first[i] ? 1 : 0, both += first[i] && second[i] ? 1 : 0;
  return yes > 0 ? both / yes : 0;
}

}  // namespace

std::vector<std::string> sentences_of(const std::string& text) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool stop = text[i] == '.' || text[i] == '!' || text[i] == '?';
    const bool end =
        text[i] == '\n' || (stop && (i + 1 == text.size() || text[i + 1] == ' ' || text[i + 1] == '\n'));
    if (!end && i + 1 < text.size()) continue;
    if (std::string one = trimmed(text.substr(begin, i + 1 - begin)); !one.empty())
      out.push_back(std::move(one));
    begin = i + 1;
  }
  return out;
}

Result<std::vector<double>> selfcheck_by_model(EvalModel& judge, const std::vector<std::string>& sentences,
                                               const std::vector<std::string>& samples,
                                               const JudgeOptions& o) {
  std::vector<std::string> prompts;
  for (const std::string& sentence : sentences)
    for (const std::string& sample : samples)
      prompts.push_back(fmt::format(
          "[Context]\n{}\n\n[Sentence]\n{}\n\nIs the sentence supported by the context? Yes or No.", sample,
          sentence));
  MAKAR_TRY(const auto p, verdict_probabilities(judge, prompts, kYesNo, o));
  std::vector<double> out;
  for (size_t s = 0; s < sentences.size(); ++s) {
    double no = 0;
    for (size_t i = 0; i < samples.size(); ++i) no += p[s * samples.size() + i][1];
    out.push_back(no / static_cast<double>(samples.size()));
  }
  return out;
}

Result<std::vector<double>> selfcheck_by_vectors(const TextVectors& vectors,
                                                 const std::vector<std::string>& sentences,
                                                 const std::vector<std::string>& samples) {
  std::vector<TokenVectors> sentence_vectors;
  for (const std::string& sentence : sentences) {
    MAKAR_TRY(sentence_vectors.emplace_back(), vectors(sentence));
  }
  std::vector<double> out(sentences.size(), 1);
  for (const std::string& sample : samples) {
    std::vector<double> best(sentences.size(), 0);
    for (const std::string& sentence : sentences_of(sample)) {
      MAKAR_TRY(const TokenVectors other, vectors(sentence));
      for (size_t i = 0; i < sentence_vectors.size(); ++i)
        best[i] = std::max(best[i], bert_score(sentence_vectors[i], other).f1);
    }
    for (size_t i = 0; i < sentence_vectors.size(); ++i)
      out[i] -= best[i] / static_cast<double>(samples.size());
  }
  return out;
}

std::vector<double> selfcheck_by_words(const std::vector<std::string>& sentences,
                                       const std::vector<std::string>& samples) {
  std::map<std::string, double> counts;
  double all = 0;
  for (const auto* texts : {&sentences, &samples})
    for (const std::string& text : *texts)
      for (const std::string& word : split_words(lowered(text))) ++counts[word], ++all;
  const double types = static_cast<double>(counts.size());
  std::vector<double> out;
  for (const std::string& sentence : sentences) {
    double sum = 0, words = 0;
    for (const std::string& word : split_words(lowered(sentence)))
      sum -= std::log((counts[word] + 1) / (all + types)), ++words;
    out.push_back(words > 0 ? sum / words : 0);
  }
  return out;
}

Result<SummaryScores> judge_summary(EvalModel& judge, const std::string& document, const std::string& summary,
                                    int64_t questions, const JudgeOptions& o) {
  SummaryScores out;
  MAKAR_TRY(out.document_questions, ask_questions(judge, document, questions, o));
  MAKAR_TRY(out.summary_questions, ask_questions(judge, summary, questions, o));
  MAKAR_TRY(out.coverage, shared_answers(judge, document, summary, out.document_questions, o));
  MAKAR_TRY(out.alignment, shared_answers(judge, summary, document, out.summary_questions, o));
  out.score = std::min(out.coverage, out.alignment);
  return out;
}

}  // namespace makar
