#include "serve/prepare.h"

#include <random>

#include "llm/image_inputs.h"
#include "llm/infill.h"
#include "llm/tool_calls.h"

namespace makar {
namespace {

// Template and tokenizer errors name a file; this replaces it by the field of the request.
Error at_field(const Error& error, const std::string& field) {
  return {error.kind == Error::Kind::kNotFound ? Error::Kind::kUnsupported : error.kind, field,
          error.message};
}

// A model that describes one image and reads no text.
bool is_captioner(const ModelSpec& spec) { return spec.is_encoder_decoder() && spec.reads_images(); }

// Decodes the images of a conversation, one at a time. Decoding takes at most 12 bytes of memory per pixel.
Result<std::vector<Tensor>> decode_images(GenerationRequest& request, const LanguageModel& language,
                                          WorkBudget& work) {
  constexpr ImageLimits kLimits{.pixels = int64_t{1} << 24, .bytes = int64_t{1} << 25};
  constexpr int64_t kPixelsPerUnit = 8;  // of the work budget
  std::vector<Tensor> pixels;
  for (RequestImage& input : request.images) {
    if (!language.spec().image_input && !is_captioner(language.spec()))
      return error_of(Error::Kind::kUnsupported, input.place, "this model reads only text");
    if (!work.check()) return work.error(input.place);
    MAKAR_TRY(const Image image, decode_image(std::as_bytes(std::span(input.bytes)), input.place, kLimits));
    if (!work.spend(image.pixels() / kPixelsPerUnit)) return work.error(input.place);
    MAKAR_TRY(Tensor one, model_pixels(language, image, input.place));
    pixels.push_back(std::move(one));
    input.bytes = {};
  }
  return pixels;
}

// The images of the messages, in their order.
std::vector<Tensor> images_of(const Json& messages, const std::vector<Tensor>& pixels) {
  std::vector<Tensor> out;
  for (const Json& message : messages)
    if (const auto content = message.find("content"); content != message.end() && content->is_array())
      for (const Json& part : *content)
        if (part.contains("index")) out.push_back(pixels.at(part["index"].get<size_t>()));
  return out;
}

Result<std::vector<int64_t>> encode_conversation(GenerationRequest& request, const ServedModel& model,
                                                 bool forced, const std::vector<Tensor>& pixels) {
  const LanguageModel& language = model.language;
  if (is_captioner(language.spec()) && pixels.empty())
    return error_of(Error::Kind::kUnsupported, "messages",
                    "a {} describes an image; send a message with one image and no text",
                    language.spec().architecture);
  if (!language.chat_template() && !is_captioner(language.spec()))
    return error_of(Error::Kind::kUnsupported, "messages",
                    "the model has no chat template; start the server with --chat-template, or continue text "
                    "with /v1/completions");
  if (request.chat->tools.is_array() && !request.chat->tools.empty() &&
      request.tool_choice.kind != ToolChoice::Kind::kNone &&
      (!language.chat_template() || language.chat_template()->source().find("tools") == std::string::npos))
    return error_of(Error::Kind::kUnsupported, "tools",
                    "the chat template of this model does not support tools; omit them, or start the "
                    "server with a --chat-template that renders them");
  request.options.images = nullptr;
  if (const auto images = images_of(request.chat->messages, pixels); !images.empty())
    request.options.images = join_images(language, images);
  auto ids = request.options.images
                 ? encode_chat_with_images(language, *request.chat, *request.options.images)
                 : language.encode_chat(*request.chat);
  if (!ids.ok()) return at_field(ids.error(), "messages");
  // A forced tool call starts with the template's opening tag.
  if (forced && language.chat_template() &&
      language.chat_template()->source().find("<tool_call>") != std::string::npos) {
    EncodeOptions o;
    o.offsets = false, o.special_text = SpecialText::kParse;
    MAKAR_TRY(const Encoding opening, language.tokenizer().encode("<tool_call>\n", o));
    ids->insert(ids->end(), opening.ids.begin(), opening.ids.end());
  }
  return ids;
}

// Encodes the conversation. With drop_oldest, drops the fewest oldest turns that make it fit.
Result<std::vector<int64_t>> fit_conversation(GenerationRequest& request, const ServedModel& model,
                                              bool forced, WorkBudget& work) {
  MAKAR_TRY(const std::vector<Tensor> pixels, decode_images(request, model.language, work));
  MAKAR_TRY(std::vector<int64_t> ids, encode_conversation(request, model, forced, pixels));
  const Status fits = check_fits_context(ids, model, "messages", request.options.images.get());
  if (fits.ok()) return ids;
  if (!request.drop_oldest || fits.error().kind != Error::Kind::kLimit) return fits.error();
  const Json all_messages = request.chat->messages;
  size_t head = 0;
  while (head < all_messages.size() && all_messages[head]["role"] == "system") ++head;
  std::vector<size_t> turns;  // user messages at which the conversation can start
  for (size_t i = head + 1; i < all_messages.size(); ++i)
    if (all_messages[i]["role"] == "user") turns.push_back(i);
  std::optional<std::vector<int64_t>> best;
  std::shared_ptr<ImageInputs> images;
  for (size_t low = 0, high = turns.size(); low < high;) {
    const size_t middle = (low + high) / 2;
    Json& messages = request.chat->messages = Json::array();
    for (size_t i = 0; i < all_messages.size(); ++i)
      if (i < head || i >= turns[middle]) messages.push_back(all_messages[i]);
    MAKAR_TRY(ids, encode_conversation(request, model, forced, pixels));
    if (check_fits_context(ids, model, "messages", request.options.images.get()).ok())
      high = middle, best = std::move(ids), images = request.options.images;
    else
      low = middle + 1;
  }
  if (!best) return fits.error();
  request.options.images = std::move(images);
  return std::move(*best);
}

Status constrain_answer(GenerationRequest& request, const ServedModel& model, WorkBudget& work) {
  const bool schema = !request.schema.empty();
  if (!schema && request.grammar.empty() && request.regex.empty()) return Done{};
  const auto rules = schema                     ? Grammar::from_json_schema(request.schema, {}, &work)
                     : !request.grammar.empty() ? Grammar::from_gbnf(request.grammar, {}, &work)
                                                : Grammar::from_regex(request.regex, {}, &work);
  const char* field = schema ? "response_format" : !request.grammar.empty() ? "grammar" : "guided_regex";
  if (!rules.ok()) return Error{rules.error().kind, field, rules.error().text()};
  auto constraint = model.constrainer.constrain(*rules);
  if (!constraint.ok()) return Error{constraint.error().kind, field, constraint.error().text()};
  request.options.constraint = std::move(*constraint);
  return Done{};
}

}  // namespace

size_t preparation_bytes(const GenerationRequest& request) {
  constexpr size_t kTemplateBytesPerMessage = 64, kPixelBytesPerImageByte = 16;  // estimates
  const bool forced = request.tool_choice.kind == ToolChoice::Kind::kRequired ||
                      request.tool_choice.kind == ToolChoice::Kind::kNamed;
  // A short pattern can compile to a large automaton.
  if (forced || !request.schema.empty() || !request.grammar.empty() || !request.regex.empty())
    return size_t{1} << 20;
  size_t bytes = request.suffix ? request.suffix->size() : 0;
  for (const PromptInput& prompt : request.prompts)
    if (const auto* text = std::get_if<std::string>(&prompt)) bytes += text->size();
  if (request.chat)
    for (const Json& message : request.chat->messages)
      if (const auto content = message.find("content"); content != message.end() && content->is_string())
        bytes += kTemplateBytesPerMessage + content->get_ref<const std::string&>().size();
  for (const RequestImage& input : request.images) bytes += kPixelBytesPerImageByte * input.bytes.size();
  return bytes;
}

const char* uses_of(const ModelSpec& spec) {
  if (spec.head.kind == HeadKind::kSequenceClass)
    return "use it with /v1/moderations, /v1/rerank or /v1/embeddings";
  return "use it with /v1/embeddings or /v1/rerank";
}

Result<ServedModel> ServedModel::of(LanguageModel language, const ContextOptions& context,
                                    const std::string& name, const std::string& path) {
  MAKAR_TRY(Constrainer constrainer, Constrainer::of(language));
  std::vector<std::string> tokens = constrainer.bytes();
  for (const AddedToken& added : language.tokenizer().added_tokens())
    if (added.id < tokens.size() && tokens[added.id].empty()) tokens[added.id] = added.content;
  return ServedModel{std::move(language), std::move(constrainer), std::move(tokens), context, name, path};
}

Status check_fits_context(const std::vector<int64_t>& prompt, const ServedModel& model,
                          const std::string& place, const ImageInputs* images) {
  const int64_t limit = model.context_limit();
  if (limit > 0 && model.context.policy == ContextPolicy::kError &&
      static_cast<int64_t>(prompt.size()) >= limit + (model.language.spec().is_encoder_decoder() ? 1 : 0))
    return error_of(Error::Kind::kLimit, place,
                    "has {} tokens; the context of this model is {} tokens including the answer",
                    prompt.size(), limit);
  std::vector<int64_t> copy = prompt;
  Decoding one_token;
  one_token.max_new_tokens = 1;
  const Status fits = fit_request(model.language.model(), model.context, copy, one_token, images);
  return fits.ok() ? Status(Done{}) : at_field(fits.error(), place);
}

Result<std::vector<std::vector<int64_t>>> prepare(GenerationRequest& request, const ServedModel& model,
                                                  WorkBudget& work) {
  using Kind = ToolChoice::Kind;
  const LanguageModel& language = model.language;
  if (language.spec().head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, "model", "a {} does not generate text; {}",
                    language.spec().architecture, uses_of(language.spec()));
  std::vector<std::vector<int64_t>> prompts;
  if (request.chat) {
    const bool forced =
        request.tool_choice.kind == Kind::kRequired || request.tool_choice.kind == Kind::kNamed;
    if (forced) request.schema = call_schema(request.chat->tools, request.tool_choice.name);
    request.chat->work = &work;
    auto ids = fit_conversation(request, model, forced, work);
    request.chat->work = nullptr;  // the request outlives the budget
    if (!ids.ok()) return ids.error();
    prompts.push_back(std::move(*ids));
  }
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string place = request.prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    if (const auto* text = std::get_if<std::string>(&request.prompts[i])) {
      auto ids = request.suffix ? encode_infill(language, *text, *request.suffix, &work)
                                : language.encode(*text, false, &work);
      if (!ids.ok() && ids.error().place == "suffix") return ids.error();
      if (!ids.ok()) return at_field(ids.error(), place);
      if (ids->empty() && language.spec().bos >= 0) ids->push_back(language.spec().bos);
      prompts.push_back(std::move(*ids));
    } else if (request.suffix) {
      return error_at("suffix", "requires a prompt of text; this one is a list of ids");
    } else {
      prompts.push_back(std::get<std::vector<int64_t>>(request.prompts[i]));
    }
    MAKAR_RETURN_IF_ERROR(check_fits_context(prompts.back(), model, place));
  }
  for (const auto& [id, bias] : request.options.sampler.logit_bias)
    if (id >= language.spec().vocab)
      return error_at("logit_bias", "token {} is not in the vocabulary of {} tokens", id,
                      language.spec().vocab);
  MAKAR_RETURN_IF_ERROR(constrain_answer(request, model, work));
  request.options.fit = true;
  request.options.speculation = model.speculation;
  if (!request.has_seed) {
    static thread_local std::random_device random;
    request.options.sampler.seed = (static_cast<uint64_t>(random()) << 32) | random();
  }
  if (const Status valid = check_generation(request.options); !valid.ok()) return valid.error();
  return prompts;
}

}  // namespace makar
