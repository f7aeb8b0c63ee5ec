#include "llm/language_model.h"

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "models/adapter.h"
#include "models/source.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

std::vector<int64_t> to_ids(const std::vector<uint32_t>& ids) { return {ids.begin(), ids.end()}; }

// Adds the stop ids of generation_config.json to those of the config: chat models end turns with additional
// ids.
Status read_generation_config(const std::string& folder, int64_t vocab, std::vector<int64_t>& stop) {
  const std::string path = (fs::path(folder) / "generation_config.json").string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Done{};
  MAKAR_TRY(const Json json, read_json(path));
  if (!json.is_object() || !json.contains("eos_token_id")) return Done{};
  const Json& eos = json["eos_token_id"];
  if (eos.is_null()) return Done{};
  for (const Json& id : eos.is_array() ? eos : Json::array({eos})) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocab)
      return error_at(path, "eos_token_id must be an id below {} or a list of them, found {}", vocab,
                      id.dump());
    if (std::find(stop.begin(), stop.end(), id.get<int64_t>()) == stop.end())
      stop.push_back(id.get<int64_t>());
  }
  return Done{};
}

// Templates that support images expect the content of a message as a list of parts.
Json in_parts(Json messages) {
  if (!messages.is_array()) return messages;
  for (Json& message : messages)
    if (message.is_object() && message.contains("content") && message["content"].is_string())
      message["content"] = Json::array({{{"type", "text"}, {"text", message["content"]}}});
  return messages;
}

// The template of a GGUF file, with the special tokens it may reference.
Result<ChatTemplate> template_of(const Gguf& file, const Tokenizer& tokenizer) {
  const auto text = file.fields().text("tokenizer.chat_template");
  if (!text) return error_of(Error::Kind::kNotFound, file.place(), "contains no tokenizer.chat_template");
  MAKAR_TRY(ChatTemplate parsed, ChatTemplate::parse(*text, file.place() + ": tokenizer.chat_template"));
  constexpr std::pair<const char*, const char*> kTokens[] = {
      {"bos_token", "tokenizer.ggml.bos_token_id"},
      {"eos_token", "tokenizer.ggml.eos_token_id"},
      {"unk_token", "tokenizer.ggml.unknown_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kTokens) {
    const auto id = file.fields().integer(key);
    if (!id || *id < 0 || *id >= static_cast<int64_t>(tokenizer.vocab_size())) continue;
    if (const auto token = tokenizer.token(static_cast<uint32_t>(*id))) parsed.set_token(name, *token);
  }
  return parsed;
}

// The template of a folder or of a GGUF file; kNotFound if there is none.
Result<ChatTemplate> chat_template_of(const ModelSource& source, const Tokenizer& tokenizer) {
  return source.gguf ? template_of(*source.gguf, tokenizer) : ChatTemplate::load(source.path);
}

}  // namespace

// A model without a tokenizer still serves token ids; a broken tokenizer is an error.
Status LanguageModel::open_text(const ModelSource& source) {
  auto tokenizer = Tokenizer::load(source.path);
  if (!tokenizer.ok()) {
    if (tokenizer.error().kind != Error::Kind::kNotFound) return tokenizer.error();
    return Done{};
  }
  tokenizer_ = std::move(*tokenizer);
  if (static_cast<int64_t>(tokenizer_->vocab_size()) > spec().vocab)
    return error_at(source.path,
                    "the tokenizer has {} ids but the model a vocabulary of {}; they do not belong together",
                    tokenizer_->vocab_size(), spec().vocab);
  chat_ = std::make_shared<ChatEncoder>(*tokenizer_);
  auto chat = chat_template_of(source, *tokenizer_);
  if (chat.ok())
    template_ = std::move(*chat);
  else if (chat.error().kind != Error::Kind::kNotFound)
    return chat.error();
  return Done{};
}

Status LanguageModel::open_images(const std::string& folder) {
  const PatchSpec& p = *spec().encoder->embedding.patches;
  if (p.channels != 3) return Done{};
  const bool clip = spec().image_input || spec().head.kind == HeadKind::kContrastive;
  MAKAR_TRY(images_, ImageProcessor::read(folder, clip ? ImageProcessor::clip(p.image_height, p.image_width)
                                                       : ImageProcessor::vit(p.image_height, p.image_width)));
  if (images_->fixed_size() &&
      (images_->output_height() != p.image_height || images_->output_width() != p.image_width))
    return error_at(folder, "the image processor makes {} x {} pixels, but the model takes {} x {}",
                    images_->output_width(), images_->output_height(), p.image_width, p.image_height);
  return Done{};
}

bool LanguageModel::places_images() const {
  return spec().image_input && template_ && template_->places_images();
}

Result<LanguageModel> LanguageModel::open(const std::string& path, Device& device,
                                          const LanguageModelOptions& options) {
  LanguageModel out;
  MAKAR_TRY(const ModelSource source, ModelSource::open(path));
  MAKAR_TRY(out.loaded_, load_model(source, {options.weights == WeightUse::kTrained}));
  AdapterSet offered(out.loaded_, device);
  for (const std::string& folder : options.offered) MAKAR_RETURN_IF_ERROR(offered.load(folder));
  offered.add_row_adapters();
  MAKAR_RETURN_IF_ERROR(load_adapters(out.loaded_, options.adapters, device));
  out.stop_ = out.spec().eos;
  const std::string folder = fs::is_directory(path) ? path : fs::path(path).parent_path().string();
  MAKAR_RETURN_IF_ERROR(read_generation_config(folder, out.spec().vocab, out.stop_));
  MAKAR_RETURN_IF_ERROR(out.open_text(source));
  if (out.spec().reads_images()) MAKAR_RETURN_IF_ERROR(out.open_images(folder));
  MAKAR_RETURN_IF_ERROR(admit_model(*out.loaded_.model, path, options.memory));
  if (options.weights == WeightUse::kPacked) out.loaded_.model->pack(device, true, options.activations);
  return out;
}

Status LanguageModel::use_template(const std::string& source, const std::string& place) {
  if (!tokenizer_)
    return error_of(Error::Kind::kNotFound, "tokenizer", "the model has none, and a chat template needs one");
  MAKAR_TRY(ChatTemplate parsed, ChatTemplate::parse(source, place));
  const auto token = [&](const char* key, int64_t id) {
    if (id < 0 || id >= static_cast<int64_t>(tokenizer_->vocab_size())) return;
    if (const auto text = tokenizer_->token(static_cast<uint32_t>(id))) parsed.set_token(key, *text);
  };
  token("bos_token", spec().bos), token("eos_token", stop_.empty() ? -1 : stop_.front());
  if (template_)
    for (const auto& [key, text] : template_->tokens()) parsed.set_token(key, text);
  template_ = std::move(parsed);
  return Done{};
}

Result<std::vector<int64_t>> LanguageModel::encode(const std::string& text, bool parse_special,
                                                   WorkBudget* work) const {
  if (!tokenizer_)
    return error_of(Error::Kind::kNotFound, "tokenizer",
                    "the model folder has no tokenizer; pass token ids instead");
  EncodeOptions o;
  o.add_special = true, o.offsets = false;
  o.special_text = parse_special ? SpecialText::kParse : SpecialText::kPlain, o.work = work;
  MAKAR_TRY(const Encoding encoding, tokenizer_->encode(text, o));
  return to_ids(encoding.ids);
}

Result<std::vector<int64_t>> LanguageModel::encode_chat(const ChatInput& input) const {
  if (!template_)
    return error_of(
        Error::Kind::kNotFound, "chat template",
        "the model has no chat template; set `program.chat_template`, or continue text with makar generate");
  ChatInput with_parts;
  if (places_images()) with_parts = input, with_parts.messages = in_parts(input.messages);
  MAKAR_TRY(const ChatRendering rendering, template_->render(places_images() ? with_parts : input));
  MAKAR_TRY(const ChatEncoding encoding, chat_->encode(rendering, input.work));
  return to_ids(encoding.ids);
}

Result<std::vector<int64_t>> LanguageModel::encode_segments(const ChatRendering& rendering) const {
  if (!tokenizer_)
    return error_of(Error::Kind::kNotFound, "tokenizer", "the model folder has none; pass token ids instead");
  MAKAR_TRY(const ChatEncoding encoding, chat_->encode(rendering));
  return to_ids(encoding.ids);
}

}  // namespace makar
