#include "llm/language_model.h"

#include <algorithm>
#include <filesystem>

#include "base/json.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

std::vector<int64_t> to_ids(const std::vector<uint32_t>& ids) { return {ids.begin(), ids.end()}; }

// The ending ids of generation_config.json join those of the config: chat models end turns with ids of their
// own.
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

}  // namespace

Result<LanguageModel> LanguageModel::open(const std::string& path, ThreadPool& pool) {
  LanguageModel out;
  MAKAR_TRY(out.loaded_, load_model(path));
  out.loaded_.model->pack(pool);
  out.stop_ = out.spec().eos;
  const std::string folder = fs::is_directory(path) ? path : fs::path(path).parent_path().string();
  MAKAR_CHECK_OK(read_generation_config(folder, out.spec().vocab, out.stop_));
  auto tokenizer = Tokenizer::load(path);
  if (!tokenizer.ok()) {
    // A model without a tokenizer still serves ids; a broken one is an error.
    if (tokenizer.error().kind != Error::Kind::kNotFound) return tokenizer.error();
    return out;
  }
  out.tokenizer_ = std::move(*tokenizer);
  if (static_cast<int64_t>(out.tokenizer_->vocab_size()) > out.spec().vocab)
    return error_at(path,
                    "the tokenizer has {} ids but the model a vocabulary of {}; they do not belong together",
                    out.tokenizer_->vocab_size(), out.spec().vocab);
  out.chat_ = std::make_shared<ChatEncoder>(*out.tokenizer_);
  auto chat = ChatTemplate::load(path);
  if (chat.ok())
    out.template_ = std::move(*chat);
  else if (chat.error().kind != Error::Kind::kNotFound)
    return chat.error();
  return out;
}

Result<std::vector<int64_t>> LanguageModel::encode(const std::string& text, bool parse_special) const {
  if (!tokenizer_)
    return error_of(Error::Kind::kNotFound, "tokenizer", "the model folder has none; give ids instead");
  EncodeOptions o;
  o.add_special = true, o.offsets = false;
  o.special_text = parse_special ? SpecialText::kParse : SpecialText::kPlain;
  MAKAR_TRY(const Encoding encoding, tokenizer_->encode(text, o));
  return to_ids(encoding.ids);
}

Result<std::vector<int64_t>> LanguageModel::encode_chat(const ChatInput& input) const {
  if (!template_)
    return error_of(
        Error::Kind::kNotFound, "chat template",
        "the model folder has none; it continues text (makar generate), or give one with --chat-template");
  MAKAR_TRY(const ChatRendering rendering, template_->render(input));
  MAKAR_TRY(const ChatEncoding encoding, chat_->encode(rendering));
  return to_ids(encoding.ids);
}

}  // namespace makar
