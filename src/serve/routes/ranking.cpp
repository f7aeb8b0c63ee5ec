// Reranking and moderations.
#include "serve/api/ranking.h"

#include "serve/api/fields.h"
#include "serve/dispatch.h"
#include "serve/engine_tasks.h"
#include "serve/routes/handlers.h"

namespace makar::routes {
namespace {

// For unit vectors.
double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// The error at another place; errors about the model keep the place "model".
Error at_place(const Error& error, const std::string& place) {
  return {error.kind, error.kind == Error::Kind::kUnsupported ? "model" : place, error.message};
}

int64_t count_tokens(const std::vector<TypedTokens>& texts) {
  int64_t tokens = 0;
  for (const TypedTokens& text : texts) tokens += static_cast<int64_t>(text.ids.size());
  return tokens;
}

}  // namespace

// A cross-encoder scores query and document as a pair; other models compare embeddings.
void rerank(ServeContext& server, Call& call) {
  RerankRequest request;
  std::vector<TypedTokens> texts;
  const LanguageModel& language = call.model.language();
  const bool pairs = language.spec().head.kind == HeadKind::kSequenceClass;
  const auto read = [&]() -> Status {
    MAKAR_TRY(request, read_rerank(call.body));
    call.body = {};
    std::optional<ClassifierPairs> pairs_of_query;
    if (pairs) {
      MAKAR_TRY(pairs_of_query, ClassifierPairs::of(language, request.query, &call.work));
    } else {
      auto ids = embed_tokens(language, request.query, call.model.active->embed, &call.work);
      if (!ids.ok()) return at_place(ids.error(), "query");
      texts.push_back({std::move(*ids), {}});
    }
    for (size_t i = 0; i < request.documents.size(); ++i) {
      const auto tokens = [&]() -> Result<TypedTokens> {
        if (pairs) return pairs_of_query->with(request.documents[i]);
        MAKAR_TRY(auto ids,
                  embed_tokens(language, request.documents[i], call.model.active->embed, &call.work));
        return TypedTokens{std::move(ids), {}};
      };
      auto document = tokens();
      if (!document.ok()) return at_place(document.error(), fmt::format("documents[{}]", i));
      texts.push_back(std::move(*document));
    }
    return Done{};
  };
  if (const Status valid = read(); !valid.ok()) return send_error(call, valid.error());
  const int64_t tokens = count_tokens(texts);
  const auto shared_call = std::make_shared<Call>(std::move(call));
  shared_call->reply->count(tokens, 0);
  const auto on_done = [shared_call, request, tokens,
                        pairs](const Result<std::vector<std::vector<float>>>& rows) {
    const auto scores = [&]() -> Result<std::vector<double>> {
      if (!rows.ok()) return rows.error();
      std::vector<double> out;
      for (size_t i = pairs ? 0 : 1; i < rows->size(); ++i) {
        MAKAR_TRY(const double score,
                  pairs ? relevance((*rows)[i]) : Result<double>(cosine((*rows)[0], (*rows)[i])));
        out.push_back(score);
      }
      return out;
    }();
    if (!scores.ok()) return send_error(*shared_call, scores.error());
    send_json(*shared_call, rerank_json(request, *scores, shared_call->model.name, random_id(), tokens));
  };
  if (pairs) return submit_task(server, std::make_shared<LabelTask>(std::move(texts), on_done), *shared_call);
  std::vector<std::vector<int64_t>> ids;
  for (TypedTokens& text : texts) ids.push_back(std::move(text.ids));
  EmbedOptions unit_options = shared_call->model.active->embed;
  unit_options.normalize = true;
  submit_task(server, std::make_shared<EmbedTask>(std::move(ids), unit_options, on_done), *shared_call);
}

void moderations(ServeContext& server, Call& call) {
  std::vector<TypedTokens> texts;
  const auto read = [&]() -> Status {
    MAKAR_TRY(const std::vector<std::string> inputs, read_moderation(call.body));
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto text = classifier_tokens(call.model.language(), inputs[i], &call.work);
      if (!text.ok()) return at_place(text.error(), fmt::format("input[{}]", i));
      texts.push_back(std::move(*text));
    }
    return Done{};
  };
  if (const Status valid = read(); !valid.ok()) return send_error(call, valid.error());
  const auto shared_call = std::make_shared<Call>(std::move(call));
  shared_call->reply->count(count_tokens(texts), 0);
  submit_task(server,
              std::make_shared<LabelTask>(std::move(texts),
                                          [shared_call](const Result<std::vector<std::vector<float>>>& rows) {
                                            if (!rows.ok()) return send_error(*shared_call, rows.error());
                                            const ModelSpec& spec = shared_call->model.language().spec();
                                            const bool multi = is_multi_label(spec);
                                            std::vector<std::vector<double>> probabilities;
                                            for (const auto& row : *rows)
                                              probabilities.push_back(class_probabilities(row, multi));
                                            send_json(*shared_call,
                                                      moderation_json(probabilities, label_names(spec), multi,
                                                                      shared_call->model.name, random_id()));
                                          }),
              *shared_call);
}

}  // namespace makar::routes
