// Log-probabilities of a completion.
#include "llm/loglikelihood.h"
#include "serve/api/fields.h"
#include "serve/dispatch.h"
#include "serve/engine_tasks.h"
#include "serve/routes/handlers.h"

namespace makar::routes {

void score(ServeContext& server, Call& call) {
  int64_t top = 0;
  const Json& body = call.body;
  const ServedModel& model = call.model.served();
  const auto text = [&]() -> Result<ScoredText> {
    MAKAR_TRY(const std::string prompt, text_field(body, "prompt"));
    MAKAR_TRY(const std::string completion, text_field(body, "completion"));
    MAKAR_TRY(top, integer_field(body, "top", 0, 20, 0));
    if (!model.language.spec().continues_text())
      return error_of(Error::Kind::kUnsupported, "model",
                      "only decoder-only language models can score texts");
    MAKAR_TRY(ScoredText planned, plan_score(model.language, model.context, prompt, completion, &call.work));
    constexpr int64_t kBytesPerToken = 512, kBytesPerAlternative = 384;  // as JSON and text
    const auto tokens = static_cast<int64_t>(planned.tokens.size());
    MAKAR_RETURN_IF_ERROR(
        call.reply->take_memory(tokens * (kBytesPerToken + kBytesPerAlternative * top), "its scores"));
    return planned;
  }();
  if (!text.ok()) return send_error(call, text.error());
  const auto shared_call = std::make_shared<Call>(std::move(call));
  shared_call->reply->count(static_cast<int64_t>(text->tokens.size()), 0);
  const ScoredText& scored = *text;
  auto task = std::make_shared<ScoreTask>(
      scored.tokens, scored.from, top,
      [shared_call, scored, &model](const Result<std::vector<Logprobs>>& scores) {
        if (!scores.ok()) return send_error(*shared_call, scores.error());
        Json tokens = Json::array();
        Loglikelihood sum;
        for (size_t i = 0; i < scores->size(); ++i) {
          const Logprobs& l = (*scores)[i];
          const int64_t id = scored.tokens[static_cast<size_t>(scored.from) + i];
          sum.add(l);
          Json best = Json::array();
          for (const TokenLogprob& t : l.top)
            best.push_back({{"token", token_at(model.tokens, t.id)}, {"id", t.id}, {"logprob", t.logprob}});
          tokens.push_back({{"token", token_at(model.tokens, id)},
                            {"id", id},
                            {"logprob", l.chosen},
                            {"top", std::move(best)}});
        }
        send_json(*shared_call, {{"logprob", sum.logprob},
                                 {"tokens", sum.tokens},
                                 {"perplexity", sum.perplexity()},
                                 {"is_greedy", sum.is_greedy},
                                 {"token_logprobs", std::move(tokens)}});
      });
  submit_task(server, std::move(task), *shared_call);
}

}  // namespace makar::routes
