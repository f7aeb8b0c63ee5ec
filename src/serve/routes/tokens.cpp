// Text to tokens and back.
#include <algorithm>

#include "serve/api/fields.h"
#include "serve/routes/handlers.h"

namespace makar::routes {
namespace {

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
    const size_t end = std::min(at_ + kPieceTokens, ids_.size());
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
  static constexpr size_t kPieceTokens = 2048;  // tokens per piece
  const std::vector<uint32_t> ids_;
  const bool pieces_;
  const std::shared_ptr<ActiveModel> model_;
  size_t at_ = 0;  // next token; size + 1: complete
};

}  // namespace

void tokenize(ServeContext& server, Call& call) {
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
    MAKAR_RETURN_IF_ERROR(model.language.tokenizer().append_ids(text, o, ids));
    return ids;
  }();
  if (!tokens.ok()) return send_error(call, tokens.error());
  call.body = {};
  call.reply->shrink_memory(static_cast<int64_t>(tokens->capacity() * sizeof(uint32_t)));
  const auto answer = std::make_shared<TokenList>(std::move(*tokens), pieces, call.model.active);
  HttpResponse response;
  response.body = answer->next();
  if (!answer->done()) response.body_source = [answer](const GivePiece& give) { give(answer->next()); };
  call.reply->send(std::move(response));
}

void detokenize(ServeContext& server, Call& call) {
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
    MAKAR_RETURN_IF_ERROR(call.reply->take_memory(10 * bytes, "its text"));
    std::string text_of_ids =
        model.language.tokenizer().decode(std::vector<uint32_t>(ids.begin(), ids.end()));
    Json out = {{"content", text_of_ids}};
    out["prompt"] = std::move(text_of_ids);
    return out;
  }();
  if (!text.ok()) return send_error(call, text.error());
  send_json(call, *text);
}

}  // namespace makar::routes
