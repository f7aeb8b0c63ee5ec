// Embeddings of texts or token ids.
#include <cstring>

#include "serve/api/fields.h"
#include "serve/dispatch.h"
#include "serve/engine_tasks.h"
#include "serve/routes/embed.h"
#include "serve/routes/handlers.h"
#include "text/base64.h"

namespace makar::routes {
namespace {

constexpr size_t kMaxTexts = 2048;

// `input`: texts or lists of token ids.
Result<std::vector<std::vector<int64_t>>> read_inputs(const Json& body, const ServedModel& model,
                                                      const EmbedOptions& options, WorkBudget& work) {
  if (!body.contains("input")) return error_at("input", "is missing; expected a string or a list of strings");
  const Json& input = body["input"];
  const bool ids = input.is_array() && !input.empty() && input[0].is_number();
  const Json list = input.is_array() && !ids ? input : Json::array({input});
  if (list.empty() || list.size() > kMaxTexts)
    return error_at("input", "expected 1 to {} texts, got {}", kMaxTexts, list.size());
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
    const int64_t max = model.language.spec().max_positions;
    if (max > 0 && static_cast<int64_t>(tokens.size()) > max)
      return error_of(Error::Kind::kLimit, place, "has {} tokens; the model has {} positions", tokens.size(),
                      max);
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

void embed(ServeContext& server, Call& call,
           std::function<Json(const std::vector<std::vector<float>>&, int64_t tokens)> to_json) {
  auto texts = read_inputs(call.body, call.model.served(), call.model.active->embed, call.work);
  if (!texts.ok()) return send_error(call, texts.error());
  int64_t tokens = 0;
  for (const auto& text : *texts) tokens += static_cast<int64_t>(text.size());
  constexpr int64_t kNumberBytes = 64;  // per number: float, JSON value, response text
  const Status fits = call.reply->take_memory(
      kNumberBytes * static_cast<int64_t>(texts->size()) * call.model.language().spec().main().width,
      "its vectors");
  if (!fits.ok()) return send_error(call, fits.error());
  const auto shared_call = std::make_shared<Call>(std::move(call));
  shared_call->reply->count(tokens, 0);
  auto task = std::make_shared<EmbedTask>(std::move(*texts), shared_call->model.active->embed,
                                          [shared_call, tokens, to_json = std::move(to_json)](
                                              const Result<std::vector<std::vector<float>>>& vectors) {
                                            if (!vectors.ok())
                                              return send_error(*shared_call, vectors.error());
                                            send_json(*shared_call, to_json(*vectors, tokens));
                                          });
  submit_task(server, std::move(task), *shared_call);
}

void embeddings(ServeContext& server, Call& call) {
  bool base64 = false;
  const auto format = text_field(call.body, "encoding_format", "float");
  if (!format.ok() || (*format != "float" && *format != "base64"))
    return send_error(call, error_at("encoding_format", "expected float or base64"));
  base64 = *format == "base64";
  embed(server, call,
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

}  // namespace makar::routes
