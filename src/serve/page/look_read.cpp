// Parsing of look requests: fields, limits, ids.
#include "base/shown.h"
#include "serve/api/fields.h"
#include "serve/api/messages.h"
#include "serve/page/look.h"

namespace makar {
namespace {

constexpr size_t kLongestText = size_t{64} << 10;

Status read_what(const Json& body, LookAsk& ask) {
  MAKAR_TRY(const auto what, texts_field(body, "what", 16));
  for (const std::string& name : what) {
    bool* flag = name == "next"            ? &ask.next
                 : name == "probabilities" ? &ask.probabilities
                 : name == "attention"     ? &ask.attention
                 : name == "routing"       ? &ask.routing
                 : name == "positions"     ? &ask.positions
                                           : nullptr;
    if (flag)
      *flag = true;
    else if (name != "tokens")
      return error_at("what",
                      "expected tokens, next, probabilities, attention, routing or positions, found {}",
                      shown(name));
  }
  return Done{};
}

Result<std::string> bounded_text(const Json& body, const char* key) {
  MAKAR_TRY(std::string text, text_field(body, key));
  if (text.size() > kLongestText)
    return error_of(Error::Kind::kLimit, key, "has {} bytes; {} are the most", text.size(), kLongestText);
  return text;
}

Status check_ids(const std::vector<int64_t>& ids, const ServedModel& model, const char* place) {
  const int64_t count = static_cast<int64_t>(ids.size()), limit = model.language.spec().max_positions;
  if (count > kLookTokens || (limit > 0 && count > limit))
    return error_of(Error::Kind::kLimit, place, "has {} tokens; Look inside takes at most {}", count,
                    limit > 0 ? std::min(limit, kLookTokens) : kLookTokens);
  return Done{};
}

// Checks the size of the requested attention maps before computing them.
Status check_attention(LookAsk& ask, const ModelSpec& spec) {
  if (ask.of.empty()) ask.of = spec.encoder && spec.decoder ? "cross" : spec.decoder ? "decoder" : "encoder";
  const bool fits = ask.of == "encoder"   ? spec.encoder.has_value()
                    : ask.of == "decoder" ? spec.decoder.has_value()
                    : ask.of == "cross"   ? spec.encoder && spec.decoder
                                          : false;
  if (!fits) return error_at("attention_of", "the model has no {} attention", shown(ask.of));
  const StackSpec& stack = ask.of == "encoder" ? *spec.encoder : *spec.decoder;
  for (const int64_t layer : ask.layers)
    if (layer < 0 || layer >= stack.layers())
      return error_at("layers", "there is no layer {}; the model has {}", layer, stack.layers());
  if (ask.layers.empty())
    for (int64_t i = 0; i < stack.layers(); ++i) ask.layers.push_back(i);
  const auto size = [](const std::vector<int64_t>& ids) { return static_cast<int64_t>(ids.size()); };
  const int64_t rows = ask.of == "encoder" || !spec.encoder ? size(ask.source) : size(ask.target);
  const int64_t keys = ask.of == "decoder" && spec.encoder ? size(ask.target) : size(ask.source);
  // Cross-attention also computes the decoder's self-attention map.
  const int64_t values = size(ask.layers) * stack.first().attention.heads * rows * std::max(rows, keys);
  if (values > kLookValues)
    return error_of(
        Error::Kind::kLimit, "layers",
        "attention of {} layers, {} heads and {} x {} tokens has more than {} values; ask for fewer "
        "layers or a shorter text",
        ask.layers.size(), stack.first().attention.heads, rows, keys, kLookValues);
  return Done{};
}

}  // namespace

Result<LookAsk> read_look(const Json& body) {
  LookAsk ask;
  MAKAR_TRY(ask.prompt, bounded_text(body, "prompt"));
  MAKAR_TRY(ask.completion, bounded_text(body, "completion"));
  MAKAR_TRY(ask.special, flag_field(body, "parse_special"));
  MAKAR_TRY(ask.of, text_field(body, "attention_of"));
  MAKAR_TRY(ask.top, whole_field(body, "top", 1, kLookTop, 1024));
  MAKAR_CHECK_OK(read_what(body, ask));
  if (body.contains("messages")) {
    if (body.contains("prompt")) return error_at("prompt", "either prompt or messages, not both");
    ChatInput chat;
    MAKAR_TRY(chat.messages, read_messages(body));
    MAKAR_TRY(chat.add_generation_prompt, flag_field(body, "add_generation_prompt", true));
    ask.chat = std::move(chat);
  }
  if (body.contains("layers")) {
    const Json& layers = body["layers"];
    if (!layers.is_array() || layers.empty() || layers.size() > 1024)
      return error_at("layers", "expected a list of numbers of layers");
    for (const Json& layer : layers) {
      if (!layer.is_number_integer()) return error_at("layers", "expected whole numbers");
      ask.layers.push_back(layer.get<int64_t>());
    }
    std::sort(ask.layers.begin(), ask.layers.end());
    ask.layers.erase(std::unique(ask.layers.begin(), ask.layers.end()), ask.layers.end());
  }
  return ask;
}

Status prepare_look(LookAsk& ask, const ServedModel& model) {
  const LanguageModel& language = model.language;
  const ModelSpec& spec = language.spec();
  const char* place = ask.chat ? "messages" : "prompt";
  if (spec.encoder && spec.encoder->embedding.patches)
    return error_of(Error::Kind::kUnsupported, "model", "reads images, not texts");
  if (ask.chat) {
    if (!language.chat_template())
      return error_of(Error::Kind::kUnsupported, place, "the model has no chat template; give a prompt");
    auto ids = language.encode_chat(*ask.chat);
    if (!ids.ok()) return Error{Error::Kind::kInvalid, place, ids.error().message};
    ask.source = std::move(*ids);
  } else {
    auto ids = language.encode(ask.prompt, ask.special);
    if (!ids.ok()) return Error{Error::Kind::kInvalid, place, ids.error().message};
    ask.source = std::move(*ids);
    if (ask.source.empty() && spec.bos >= 0) ask.source.push_back(spec.bos);
  }
  const bool both = spec.encoder && spec.decoder;
  if (both)
    ask.target.push_back(spec.decoder_start >= 0 ? spec.decoder_start : std::max<int64_t>(spec.bos, 0));
  if (!ask.completion.empty()) {
    EncodeOptions o;
    o.offsets = false;
    o.special_text = ask.special ? SpecialText::kParse : SpecialText::kPlain;
    MAKAR_TRY(const Encoding encoding, language.tokenizer().encode(ask.completion, o));
    auto& ids = both ? ask.target : ask.source;
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
  }
  if (ask.source.empty()) return error_at(place, "has no token");
  MAKAR_CHECK_OK(check_ids(ask.source, model, place));
  MAKAR_CHECK_OK(check_ids(ask.target, model, "completion"));
  if (ask.attention) MAKAR_CHECK_OK(check_attention(ask, spec));
  return Done{};
}

}  // namespace makar
