// Routes that read alone: tokens, vectors, scores.
#include <cmath>
#include <cstring>

#include "llm/score.h"
#include "serve/api/fields.h"
#include "serve/reading.h"
#include "serve/service.h"
#include "text/base64.h"

namespace makar {
namespace {

constexpr size_t kMostTexts = 2048;

std::vector<uint32_t> narrow(const std::vector<int64_t>& ids) { return {ids.begin(), ids.end()}; }

// Texts, or lists of ids as OpenAI's tokenizers make them.
Result<std::vector<std::vector<int64_t>>> read_inputs(const Json& body, const ServedModel& model,
                                                      const EmbedOptions& options) {
  if (!body.contains("input")) return error_at("input", "is missing: a string or a list of them");
  const Json& given = body["input"];
  const bool ids = given.is_array() && !given.empty() && given[0].is_number();
  const Json list = given.is_array() && !ids ? given : Json::array({given});
  if (list.empty() || list.size() > kMostTexts)
    return error_at("input", "expected 1 to {} texts, got {}", kMostTexts, list.size());
  std::vector<std::vector<int64_t>> out;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = list.size() == 1 ? "input" : fmt::format("input[{}]", i);
    if (list[i].is_string()) {
      auto tokens = embed_tokens(model.language, list[i].get<std::string>(), options);
      if (!tokens.ok()) return Error{tokens.error().kind, place, tokens.error().message};
      out.push_back(std::move(*tokens));
      continue;
    }
    if (!list[i].is_array() || list[i].empty())
      return error_at(place, "expected a string or a list of token ids, found {}", kind_of(list[i]));
    std::vector<int64_t> tokens;
    for (const Json& id : list[i]) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
          id.get<int64_t>() >= model.language.spec().vocab)
        return error_at(place, "expected token ids below {}", model.language.spec().vocab);
      tokens.push_back(id.get<int64_t>());
    }
    const int64_t most = model.language.spec().max_positions;
    if (most > 0 && static_cast<int64_t>(tokens.size()) > most)
      return error_of(Error::Kind::kLimit, place, "{} tokens are more than the model's {} positions",
                      tokens.size(), most);
    out.push_back(std::move(tokens));
  }
  return out;
}

Json vector_json(const std::vector<float>& vector, bool base64) {
  if (!base64) return vector;
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  return encode_base64(bytes);
}

}  // namespace

void Service::fail(Call& call, Dialect dialect, const Error& error) const {
  call.reply->failed(error.text());
  call.reply->send(error_response(dialect, ApiError::of(error)));
}

void Service::tokenize(Call& call) {
  const Json& body = call.body;
  const ServedModel& model = call.model.served();
  const auto tokens = [&]() -> Result<Json> {
    const char* key = body.contains("content") ? "content" : body.contains("prompt") ? "prompt" : "text";
    if (!body.contains(key)) return error_at("content", "is missing");
    MAKAR_TRY(const std::string text, text_field(body, key));
    MAKAR_TRY(const bool special,
              flag_field(body, body.contains("add_special") ? "add_special" : "add_special_tokens"));
    MAKAR_TRY(const bool pieces, flag_field(body, "with_pieces"));
    EncodeOptions o;
    o.add_special = special, o.offsets = false;
    MAKAR_TRY(const Encoding encoding, model.language.tokenizer().encode(text, o));
    Json list = Json::array();
    for (const uint32_t id : encoding.ids)
      list.push_back(pieces ? Json{{"id", id}, {"piece", token_at(model.tokens, id)}} : Json(id));
    return Json{{"tokens", std::move(list)},
                {"count", encoding.ids.size()},
                {"max_model_len", model.context_limit()}};
  }();
  if (!tokens.ok()) return fail(call, Dialect::kOpenAi, tokens.error());
  answer(call, *tokens);
}

void Service::detokenize(Call& call) {
  const Json& body = call.body;
  const ServedModel& model = call.model.served();
  const auto text = [&]() -> Result<Json> {
    if (!body.contains("tokens") || !body["tokens"].is_array())
      return error_at("tokens", "expected a list of token ids");
    std::vector<int64_t> ids;
    for (const Json& id : body["tokens"]) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
          id.get<int64_t>() >= model.language.spec().vocab)
        return error_at("tokens", "expected ids below {}", model.language.spec().vocab);
      ids.push_back(id.get<int64_t>());
    }
    const std::string said = model.language.tokenizer().decode(narrow(ids));
    return Json{{"content", said}, {"prompt", said}};
  }();
  if (!text.ok()) return fail(call, Dialect::kOpenAi, text.error());
  answer(call, *text);
}

void Service::count_tokens(Call& call) {
  const auto count = [&]() -> Result<Json> {
    const AskContext asked_in = context(call);
    MAKAR_TRY(Ask ask, read_message_tokens(call.body, asked_in));
    MAKAR_TRY(const auto prompts, prepare(ask, call.model.served()));
    return Json{{"input_tokens", prompts.at(0).size()}};
  }();
  if (!count.ok()) return fail(call, Dialect::kAnthropic, count.error());
  answer(call, *count);
}

// Vectors go to `tell` as the dialect would have them.
void Service::embed(Call& call, Dialect dialect,
                    std::function<Json(const std::vector<std::vector<float>>&, int64_t tokens)> tell) {
  auto texts = read_inputs(call.body, call.model.served(), call.model.active->embed);
  if (!texts.ok()) return fail(call, dialect, texts.error());
  int64_t tokens = 0;
  for (const auto& text : *texts) tokens += static_cast<int64_t>(text.size());
  const auto held = std::make_shared<Call>(std::move(call));
  held->reply->count(tokens, 0);
  auto task = std::make_shared<EmbedTask>(std::move(*texts), held->model.active->embed,
                                          [this, held, dialect, tokens, tell = std::move(tell)](
                                              const Result<std::vector<std::vector<float>>>& vectors) {
                                            if (!vectors.ok()) return fail(*held, dialect, vectors.error());
                                            answer(*held, tell(*vectors, tokens));
                                          });
  submit(std::move(task), *held);
}

void Service::submit(std::shared_ptr<EngineTask> task, Call& call) {
  call.reply->on_gone([cancelled = task->cancelled, active = std::weak_ptr(call.model.active)] {
    *cancelled = true;
    if (const auto model = active.lock()) model->loop.wake();
  });
  task->deadline = EngineTask::Clock::now() + time_of(call);
  task->adapter = call.model.adapter, task->salt = access_.caller(call.request);
  task->priority = call.background ? -1 : 0;
  call.model.loop().submit(std::move(task));
}

void Service::embeddings(Call& call) {
  bool base64 = false;
  const auto format = text_field(call.body, "encoding_format", "float");
  if (!format.ok() || (*format != "float" && *format != "base64"))
    return fail(call, Dialect::kOpenAi, error_at("encoding_format", "expected float or base64"));
  base64 = *format == "base64";
  embed(call, Dialect::kOpenAi,
        [base64, name = call.model.name](const std::vector<std::vector<float>>& vectors, int64_t tokens) {
          Json data = Json::array();
          for (size_t i = 0; i < vectors.size(); ++i)
            data.push_back(
                {{"object", "embedding"}, {"index", i}, {"embedding", vector_json(vectors[i], base64)}});
          return Json{{"object", "list"},
                      {"data", std::move(data)},
                      {"model", name},
                      {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
        });
}

void Service::ollama_embed(Call& call) {
  embed(call, Dialect::kOllama,
        [name = call.model.name](const std::vector<std::vector<float>>& vectors, int64_t tokens) {
          return Json{{"model", name}, {"embeddings", vectors}, {"prompt_eval_count", tokens}};
        });
}

void Service::score(Call& call) {
  int64_t top = 0;
  const Json& body = call.body;
  const ServedModel& model = call.model.served();
  const auto text = [&]() -> Result<ScoredText> {
    MAKAR_TRY(const std::string prompt, text_field(body, "prompt"));
    MAKAR_TRY(const std::string completion, text_field(body, "completion"));
    MAKAR_TRY(top, whole_field(body, "top", 0, 20, 0));
    if (!model.language.spec().decoder || model.language.spec().encoder)
      return error_of(Error::Kind::kUnsupported, "model", "decoder-only language models score texts");
    return plan_score(model.language, model.context, prompt, completion);
  }();
  if (!text.ok()) return fail(call, Dialect::kOpenAi, text.error());
  const auto held = std::make_shared<Call>(std::move(call));
  held->reply->count(static_cast<int64_t>(text->tokens.size()), 0);
  const ScoredText& scored = *text;
  auto task = std::make_shared<ScoreTask>(
      scored.tokens, scored.from, top,
      [this, held, scored, &model](const Result<std::vector<Logprobs>>& scores) {
        if (!scores.ok()) return fail(*held, Dialect::kOpenAi, scores.error());
        Json tokens = Json::array();
        double total = 0;
        bool greedy = true;
        for (size_t i = 0; i < scores->size(); ++i) {
          const Logprobs& l = (*scores)[i];
          const int64_t id = scored.tokens[static_cast<size_t>(scored.from) + i];
          total += static_cast<double>(l.chosen), greedy = greedy && l.rank == 0;
          Json best = Json::array();
          for (const TokenLogprob& t : l.top)
            best.push_back({{"token", token_at(model.tokens, t.id)}, {"id", t.id}, {"logprob", t.logprob}});
          tokens.push_back({{"token", token_at(model.tokens, id)},
                            {"id", id},
                            {"logprob", l.chosen},
                            {"top", std::move(best)}});
        }
        answer(*held, {{"logprob", total},
                       {"tokens", scores->size()},
                       {"perplexity", std::exp(-total / static_cast<double>(scores->size()))},
                       {"is_greedy", greedy},
                       {"token_logprobs", std::move(tokens)}});
      });
  submit(std::move(task), *held);
}

}  // namespace makar
