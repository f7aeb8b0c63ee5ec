#include "retrieval/answer_drafts.h"

namespace makar {

Result<int64_t> choose_draft(const std::string& question, const std::vector<SearchHit>& sources,
                             const Analyzer& analyzer, double min_support, const DraftOptions& options,
                             std::vector<AnswerDraft>& drafts) {
  std::vector<std::string> prompts;
  std::vector<size_t> judged;
  for (size_t i = 0; i < drafts.size(); ++i) {
    AnswerDraft& draft = drafts[i];
    if (options.toxicity) draft.toxicity = options.toxicity(draft.text);
    draft.safe = !options.toxicity || draft.toxicity < options.threshold;
    draft.groundedness = groundedness(check_grounding(draft.text, sources, analyzer, min_support));
    if (!draft.safe || draft.text.empty()) continue;
    judged.push_back(i);
    prompts.push_back(relevance_prompt(question, draft.text));
  }
  int64_t best = -1;
  if (judged.empty()) return best;
  MAKAR_TRY(const auto verdicts, options.judge(prompts));
  check(verdicts.size() == judged.size(), "one verdict per draft");
  for (size_t i = 0; i < judged.size(); ++i) {
    AnswerDraft& draft = drafts[judged[i]];
    draft.quality = verdicts[i];
    draft.score = (draft.quality + draft.groundedness) / 2;
    if (best < 0 || draft.score > drafts[static_cast<size_t>(best)].score)
      best = static_cast<int64_t>(judged[i]);
  }
  return best;
}

Result<DraftedAnswer> answer_with_drafts(Engine& engine, const LanguageModel& language,
                                         const std::string& question, const std::vector<SearchHit>& hits,
                                         const Analyzer& analyzer, const AskOptions& options,
                                         const DraftOptions& drafting) {
  check(static_cast<bool>(drafting.judge), "drafts need a judge");
  DraftedAnswer out;
  MAKAR_TRY(const auto prompt, ask_prompt(engine, language, question, hits, options, out.answer));
  if (out.answer.sources.empty()) return out;
  TextGenerationOptions generation = options.generation;
  generation.answers = drafting.drafts;
  MAKAR_TRY(const TextGenerationResult result, generate_text(engine, language, prompt, generation));
  out.answer.prompt_tokens = result.prompt_tokens;
  for (const GeneratedText& one : result.answers) {
    out.drafts.push_back({one.text});
    out.answer.tokens += static_cast<int64_t>(one.tokens.size());
  }
  MAKAR_TRY(out.chosen,
            choose_draft(question, out.answer.sources, analyzer, options.grounded, drafting, out.drafts));
  if (out.chosen < 0) {
    out.answer.text = kNothingSafe;
    return out;
  }
  out.answer.answered = true;
  out.answer.text = out.drafts[static_cast<size_t>(out.chosen)].text;
  out.answer.sentences = check_grounding(out.answer.text, out.answer.sources, analyzer, options.grounded);
  out.answer.groundedness = groundedness(out.answer.sentences);
  return out;
}

}  // namespace makar
