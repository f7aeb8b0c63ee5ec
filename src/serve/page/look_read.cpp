// Parsing of look requests: fields, limits, ids.
#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/api/messages.h"
#include "serve/page/look.h"

namespace makar {
namespace {

constexpr size_t kMaxLookTextBytes = size_t{64} << 10, kMaxLookLayers = 1024;

Status read_what(const Json& body, LookRequest& request) {
  MAKAR_TRY(const auto what, texts_field(body, "what", 16));
  for (const std::string& name : what) {
    bool* flag = name == "next"            ? &request.next
                 : name == "probabilities" ? &request.probabilities
                 : name == "attention"     ? &request.attention
                 : name == "routing"       ? &request.routing
                 : name == "positions"     ? &request.positions
                                           : nullptr;
    if (flag)
      *flag = true;
    else if (name != "tokens")
      return error_at("what",
                      "expected tokens, next, probabilities, attention, routing or positions, found {}",
                      quote(name));
  }
  return Done{};
}

Result<std::string> bounded_text(const Json& body, const char* key) {
  MAKAR_TRY(std::string text, text_field(body, key));
  if (text.size() > kMaxLookTextBytes)
    return error_of(Error::Kind::kLimit, key, "has {} bytes; the limit is {}", text.size(),
                    kMaxLookTextBytes);
  return text;
}

Status check_ids(const std::vector<int64_t>& ids, const ServedModel& model, const char* place) {
  const int64_t count = static_cast<int64_t>(ids.size()), limit = model.language.spec().max_positions;
  if (count > kMaxLookTokens || (limit > 0 && count > limit))
    return error_of(Error::Kind::kLimit, place, "has {} tokens; the limit of an inspection is {}", count,
                    limit > 0 ? std::min(limit, kMaxLookTokens) : kMaxLookTokens);
  return Done{};
}

// Checks the size of the requested attention maps before computing them.
Status check_attention(LookRequest& request, const ModelSpec& spec) {
  if (request.of.empty())
    request.of = spec.encoder && spec.decoder ? "cross" : spec.decoder ? "decoder" : "encoder";
  const bool has_attention = request.of == "encoder"   ? spec.encoder.has_value()
                             : request.of == "decoder" ? spec.decoder.has_value()
                             : request.of == "cross"   ? spec.encoder && spec.decoder
                                                       : false;
  if (!has_attention) return error_at("attention_of", "the model has no {} attention", quote(request.of));
  const StackSpec& stack = request.of == "encoder" ? *spec.encoder : *spec.decoder;
  for (const int64_t layer : request.layers)
    if (layer < 0 || layer >= stack.layers())
      return error_at("layers", "expected layers from 0 to {}, got {}", stack.layers() - 1, layer);
  if (request.layers.empty())
    for (int64_t i = 0; i < stack.layers(); ++i) request.layers.push_back(i);
  const auto size = [](const std::vector<int64_t>& ids) { return static_cast<int64_t>(ids.size()); };
  const int64_t rows = request.of == "encoder" || !spec.encoder ? size(request.source) : size(request.target);
  const int64_t keys = request.of == "decoder" && spec.encoder ? size(request.target) : size(request.source);
  // Cross-attention also computes the decoder's self-attention map.
  const int64_t values = size(request.layers) * stack.first().attention.heads * rows * std::max(rows, keys);
  if (values > kMaxLookValues)
    return error_of(
        Error::Kind::kLimit, "layers",
        "attention of {} layers, {} heads and {} x {} tokens has more than {} values; request fewer "
        "layers or a shorter text",
        request.layers.size(), stack.first().attention.heads, rows, keys, kMaxLookValues);
  return Done{};
}

}  // namespace

Result<LookRequest> read_look(const Json& body) {
  LookRequest request;
  MAKAR_TRY(request.prompt, bounded_text(body, "prompt"));
  MAKAR_TRY(request.completion, bounded_text(body, "completion"));
  MAKAR_TRY(request.special, flag_field(body, "parse_special"));
  MAKAR_TRY(request.of, text_field(body, "attention_of"));
  MAKAR_TRY(request.top, integer_field(body, "top", 1, kMaxLookTop, 1024));
  MAKAR_RETURN_IF_ERROR(read_what(body, request));
  if (body.contains("messages")) {
    if (body.contains("prompt")) return error_at("prompt", "set either prompt or messages, not both");
    ChatInput chat;
    MAKAR_TRY(chat.messages, read_messages(body));
    MAKAR_TRY(chat.add_generation_prompt, flag_field(body, "add_generation_prompt", true));
    request.chat = std::move(chat);
  }
  if (body.contains("layers")) {
    const Json& layers = body["layers"];
    if (!layers.is_array() || layers.empty() || layers.size() > kMaxLookLayers)
      return error_at("layers", "expected a list of 1 to {} layer numbers", kMaxLookLayers);
    for (const Json& layer : layers) {
      if (!layer.is_number_integer()) return error_at("layers", "expected integers");
      request.layers.push_back(layer.get<int64_t>());
    }
    std::sort(request.layers.begin(), request.layers.end());
    request.layers.erase(std::unique(request.layers.begin(), request.layers.end()), request.layers.end());
  }
  return request;
}

Status prepare_look(LookRequest& request, const ServedModel& model) {
  const LanguageModel& language = model.language;
  const ModelSpec& spec = language.spec();
  const char* place = request.chat ? "messages" : "prompt";
  if (spec.encoder && spec.encoder->embedding.patches)
    return error_of(Error::Kind::kUnsupported, "model", "reads images, not texts");
  if (request.chat) {
    if (!language.chat_template())
      return error_of(Error::Kind::kUnsupported, place,
                      "the model has no chat template; send a prompt instead");
    auto ids = language.encode_chat(*request.chat);
    if (!ids.ok()) return Error{Error::Kind::kInvalid, place, ids.error().message};
    request.source = std::move(*ids);
  } else {
    auto ids = language.encode(request.prompt, request.special);
    if (!ids.ok()) return Error{Error::Kind::kInvalid, place, ids.error().message};
    request.source = std::move(*ids);
    if (request.source.empty() && spec.bos >= 0) request.source.push_back(spec.bos);
  }
  const bool is_encoder_decoder = spec.encoder && spec.decoder;
  if (is_encoder_decoder)
    request.target.push_back(spec.decoder_start >= 0 ? spec.decoder_start : std::max<int64_t>(spec.bos, 0));
  if (!request.completion.empty()) {
    EncodeOptions o;
    o.offsets = false;
    o.special_text = request.special ? SpecialText::kParse : SpecialText::kPlain;
    MAKAR_TRY(const Encoding encoding, language.tokenizer().encode(request.completion, o));
    auto& ids = is_encoder_decoder ? request.target : request.source;
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
  }
  if (request.source.empty()) return error_at(place, "has no tokens");
  MAKAR_RETURN_IF_ERROR(check_ids(request.source, model, place));
  MAKAR_RETURN_IF_ERROR(check_ids(request.target, model, "completion"));
  if (request.attention) MAKAR_RETURN_IF_ERROR(check_attention(request, spec));
  return Done{};
}

}  // namespace makar
