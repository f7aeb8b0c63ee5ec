// Converts a tokenizer.json value to a SentencePiece model, for pipelines that SentencePiece can run.
#include <map>

#include "text/base64.h"
#include "text/field.h"
#include "text/read/sentencepiece.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace makar {
namespace {

Error unsupported(const std::string& what) {
  return error_of(Error::Kind::kUnsupported, "",
                  "a SentencePiece model cannot represent {}; write tokenizer.json instead", what);
}

std::string pattern_of(const Json& stage) {
  const Json* pattern = find_field(stage, "pattern");
  if (!pattern) return "";
  for (const char* key : {"Regex", "String"})
    if (const Json* text = find_field(*pattern, key); text && text->is_string())
      return text->get<std::string>();
  return "";
}

Status read_normalizer(const Json& stage, SentencePieceModel& model) {
  if (stage.is_null()) return Done{};
  MAKAR_TRY(const std::string type, string_field(stage, "type"));
  if (type == "Sequence") {
    MAKAR_TRY(const Json* parts, list_field(stage, "normalizers"));
    for (const Json& part : *parts) MAKAR_RETURN_IF_ERROR(read_normalizer(part, model));
    return Done{};
  }
  if (type == "Precompiled") {
    MAKAR_TRY(const std::string text, string_field(stage, "precompiled_charsmap", ""));
    model.character_map = decode_base64(text).value_or("");
    return Done{};
  }
  if (type == "Prepend" && stage.value("prepend", "") == kBlankMark)
    return model.add_dummy_prefix = true, Done{};
  const std::string pattern = pattern_of(stage), content = stage.value("content", "");
  if (type == "Replace" && pattern == " " && content == kBlankMark)
    return model.escape_whitespaces = true, Done{};
  if ((type == "Replace" && pattern == " {2,}") ||
      (type == "Replace" && (pattern == "\\A +| +\\z" || pattern == std::string(kBlankMark) + "+\\z")) ||
      type == "Strip")
    return model.remove_extra_whitespaces = true, Done{};
  return unsupported("the normalizer " + type);
}

Status read_pre_tokenizer(const Json& stage, SentencePieceModel& model) {
  if (stage.is_null()) return Done{};
  MAKAR_TRY(const std::string type, string_field(stage, "type"));
  if (type != "Metaspace") return unsupported("the pre_tokenizer " + type);
  MAKAR_TRY(const bool prefix, bool_field(stage, "add_prefix_space", true));
  MAKAR_TRY(const std::string scheme, string_field(stage, "prepend_scheme", prefix ? "always" : "never"));
  model.escape_whitespaces = true;
  model.add_dummy_prefix = scheme != "never";
  return Done{};
}

Status read_bpe(const Json& json, SentencePieceModel& model) {
  MAKAR_TRY(const Vocabulary vocabulary, Vocabulary::from_json(json.at("vocab")));
  MAKAR_TRY(const Json* merges, list_field(json, "merges"));
  std::map<std::string, size_t> rank;  // the rank of the first merge that gives a piece
  for (size_t i = 0; i < merges->size(); ++i) {
    const Json& merge = (*merges)[i];
    const std::string piece = merge[0].get<std::string>() + merge[1].get<std::string>();
    rank.emplace(piece, rank.size());
  }
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.token(id)) return unsupported("ids without a token");
    const std::string text(*vocabulary.token(id));
    const auto it = rank.find(text);
    const size_t position = it != rank.end() ? it->second : rank.size() + id;
    model.pieces.push_back({text, -static_cast<float>(position), SentencePieceModel::kNormal});
  }
  const Json* unknown = find_field(json, "unk_token");
  model.unk_id =
      unknown && unknown->is_string() ? static_cast<int>(vocabulary.find(unknown->get<std::string>())) : -1;
  return Done{};
}

Status read_unigram(const Json& json, SentencePieceModel& model) {
  for (const Json& entry : json.at("vocab"))
    model.pieces.push_back({entry[0].get<std::string>(), static_cast<float>(entry[1].get<double>()),
                            SentencePieceModel::kNormal});
  const Json* unknown = find_field(json, "unk_id");
  model.unk_id = unknown ? unknown->get<int>() : -1;
  return Done{};
}

}  // namespace

Result<SentencePieceModel> json_to_sentencepiece(const Json& json) {
  SentencePieceModel model;
  model.add_dummy_prefix = model.remove_extra_whitespaces = model.escape_whitespaces = false;
  const Json& section = json.at("model");
  MAKAR_TRY(const std::string type, string_field(section, "type", ""));
  MAKAR_RETURN_IF_ERROR(read_normalizer(json.value("normalizer", Json()), model));
  MAKAR_RETURN_IF_ERROR(read_pre_tokenizer(json.value("pre_tokenizer", Json()), model));
  MAKAR_TRY(model.byte_fallback, bool_field(section, "byte_fallback", false));
  if (type == "BPE") {
    model.kind = SentencePieceModel::kBpe;
    MAKAR_RETURN_IF_ERROR(read_bpe(section, model));
  } else if (type == "Unigram") {
    MAKAR_RETURN_IF_ERROR(read_unigram(section, model));
  } else {
    return unsupported("a model of type " + type);
  }
  if (model.unk_id < 0) return unsupported("a vocabulary without an unknown token");
  if (model.byte_fallback)
    for (auto& piece : model.pieces)
      if (piece.text.size() == 6 && piece.text.starts_with("<0x") && piece.text.ends_with('>'))
        piece.type = SentencePieceModel::kByte;
  for (const Json& token : json.value("added_tokens", Json::array())) {
    const auto id = token.at("id").get<size_t>();
    if (id >= model.pieces.size() || model.pieces[id].text != token.at("content").get<std::string>())
      return unsupported("added tokens outside the vocabulary");
    model.pieces[id].type =
        token.value("special", false) ? SentencePieceModel::kControl : SentencePieceModel::kUserDefined;
    if (model.pieces[id].type == SentencePieceModel::kControl) model.pieces[id].score = 0;
  }
  model.pieces[static_cast<size_t>(model.unk_id)].type = SentencePieceModel::kUnknown;
  model.normalizer_name = model.character_map.empty() ? "identity" : "user_defined";
  model.bos_id = model.eos_id = -1;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != SentencePieceModel::kControl) continue;
    const std::string& text = model.pieces[id].text;
    if (text == "<s>") model.bos_id = static_cast<int>(id);
    if (text == "</s>") model.eos_id = static_cast<int>(id);
    if (text == "<pad>") model.pad_id = static_cast<int>(id);
  }
  return model;
}

}  // namespace makar
