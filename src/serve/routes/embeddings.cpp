// Routes without generation: tokens, embeddings, scores.
#include <algorithm>
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

// `input`: texts or lists of token ids.
Result<std::vector<std::vector<int64_t>>> read_inputs(const Json& body, const ServedModel& model,
                                                      const EmbedOptions& options, WorkBudget& work) {
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
      auto tokens = embed_tokens(model.language, list[i].get<std::string>(), options, &work);
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

// The response of /tokenize, generated while it is sent: a JSON object per token takes a hundred times the
// memory of the text.
class TokenList {
 public:
  TokenList(std::vector<uint32_t> ids, bool pieces, std::shared_ptr<ActiveModel> model)
      : ids_(std::move(ids)), pieces_(pieces), model_(std::move(model)) {}
  bool done() const { return at_ > ids_.size(); }
  // Empty at the end.
  std::string next() {
    if (done()) return {};
    std::string out = at_ == 0 ? "{\"tokens\":[" : "";
    const size_t end = std::min(at_ + kTogether, ids_.size());
    for (; at_ < end; ++at_) {
      if (at_ > 0) out += ',';
      if (pieces_)
        out += fmt::format("{{\"id\":{},\"piece\":{}}}", ids_[at_],
                           dump(token_at(model_->served.tokens, ids_[at_])));
      else
        out += fmt::format_int(ids_[at_]).str();
    }
    if (at_ < ids_.size()) return out;
    ++at_;
    return out + fmt::format("],\"count\":{},\"max_model_len\":{}}}\n", ids_.size(),
                             model_->served.context_limit());
  }

 private:
  static constexpr size_t kTogether = 2048;  // tokens per piece
  const std::vector<uint32_t> ids_;
  const bool pieces_;
  const std::shared_ptr<ActiveModel> model_;
  size_t at_ = 0;  // next token; size + 1: complete
};

Json vector_json(const std::vector<float>& vector, bool base64) {
  if (!base64) return vector;
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  return encode_base64(bytes);
}

}  // namespace

void Service::fail(Call& call, Dialect dialect, const Error& error) const {
  // On a timeout, report the time limit rather than the field in progress.
  const Error& reported = call.work.stopped() ? call.work.error("time") : error;
  call.reply->failed(reported.text());
  call.reply->send(error_response(dialect, ApiError::of(reported)));
}

void Service::tokenize(Call& call) {
  const Json& body = call.body;
  const ServedModel& model = call.model.served();
  bool pieces = false;
  auto tokens = [&]() -> Result<std::vector<uint32_t>> {
    const char* key = body.contains("content") ? "content" : body.contains("prompt") ? "prompt" : "text";
    if (!body.contains(key)) return error_at("content", "is missing");
    MAKAR_TRY(const std::string text, text_field(body, key));
    MAKAR_TRY(const bool special,
              flag_field(body, body.contains("add_special") ? "add_special" : "add_special_tokens"));
    MAKAR_TRY(pieces, flag_field(body, "with_pieces"));
    EncodeOptions o;
    o.add_special = special, o.offsets = false, o.work = &call.work;
    std::vector<uint32_t> ids;
    MAKAR_CHECK_OK(model.language.tokenizer().append_ids(text, o, ids));
    return ids;
  }();
  if (!tokens.ok()) return fail(call, Dialect::kOpenAi, tokens.error());
  call.body = {};
  call.reply->shrink_memory(static_cast<int64_t>(tokens->capacity() * sizeof(uint32_t)));
  const auto answer = std::make_shared<TokenList>(std::move(*tokens), pieces, call.model.active);
  HttpResponse response;
  response.body = answer->next();
  if (!answer->done()) response.more = [answer](const GivePiece& give) { give(answer->next()); };
  call.reply->send(std::move(response));
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
    // There are several copies of the text, and an escaped byte takes six in JSON.
    int64_t bytes = 0;
    for (const int64_t id : ids) bytes += static_cast<int64_t>(token_at(model.tokens, id).size());
    MAKAR_CHECK_OK(call.reply->take_memory(10 * bytes, "its text"));
    std::string text_of_ids = model.language.tokenizer().decode(narrow(ids));
    Json out = {{"content", text_of_ids}};
    out["prompt"] = std::move(text_of_ids);
    return out;
  }();
  if (!text.ok()) return fail(call, Dialect::kOpenAi, text.error());
  answer(call, *text);
}

void Service::count_tokens(Call& call) {
  const auto count = [&]() -> Result<Json> {
    const RequestContext asked_in = context(call);
    MAKAR_TRY(GenerationRequest request, read_message_tokens(call.body, asked_in));
    MAKAR_TRY(const auto prompts, prepare(request, call.model.served(), call.work));
    return Json{{"input_tokens", prompts.at(0).size()}};
  }();
  if (!count.ok()) return fail(call, Dialect::kAnthropic, count.error());
  answer(call, *count);
}

// `to_json` converts the vectors into the dialect's JSON.
void Service::embed(Call& call, Dialect dialect,
                    std::function<Json(const std::vector<std::vector<float>>&, int64_t tokens)> to_json) {
  auto texts = read_inputs(call.body, call.model.served(), call.model.active->embed, call.work);
  if (!texts.ok()) return fail(call, dialect, texts.error());
  int64_t tokens = 0;
  for (const auto& text : *texts) tokens += static_cast<int64_t>(text.size());
  constexpr int64_t kNumberBytes = 64;  // per number: float, JSON value, response text
  const Status fits = call.reply->take_memory(
      kNumberBytes * static_cast<int64_t>(texts->size()) * call.model.language().spec().main().width,
      "its vectors");
  if (!fits.ok()) return fail(call, dialect, fits.error());
  const auto held = std::make_shared<Call>(std::move(call));
  held->reply->count(tokens, 0);
  auto task = std::make_shared<EmbedTask>(std::move(*texts), held->model.active->embed,
                                          [this, held, dialect, tokens, to_json = std::move(to_json)](
                                              const Result<std::vector<std::vector<float>>>& vectors) {
                                            if (!vectors.ok()) return fail(*held, dialect, vectors.error());
                                            answer(*held, to_json(*vectors, tokens));
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
  task->run_on_worker = on_worker(task->salt);
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

// /api/embed, and its older form /api/embeddings: one "prompt", one "embedding".
void Service::ollama_embed(Call& call) {
  const bool older = call.request.path == "/api/embeddings";
  if (older) {
    const auto prompt = text_field(call.body, "prompt");
    if (!prompt.ok()) return fail(call, Dialect::kOllama, prompt.error());
    call.body["input"] = *prompt;
  }
  embed(call, Dialect::kOllama,
        [older, name = call.model.name](const std::vector<std::vector<float>>& vectors, int64_t tokens) {
          if (older) return Json{{"embedding", vectors.at(0)}};
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
    MAKAR_TRY(ScoredText planned, plan_score(model.language, model.context, prompt, completion, &call.work));
    constexpr int64_t kToken = 512, kAlternative = 384;  // bytes each, as JSON and text
    const auto tokens = static_cast<int64_t>(planned.tokens.size());
    MAKAR_CHECK_OK(call.reply->take_memory(tokens * (kToken + kAlternative * top), "its scores"));
    return planned;
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
