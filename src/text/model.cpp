#include "text/model.h"

#include "base/nearest.h"
#include "base/quote.h"
#include "text/bpe.h"
#include "text/field.h"
#include "text/unigram.h"
#include "text/word_level.h"
#include "text/wordpiece.h"

namespace makar {
namespace {

// Older files omit the type; derive it from the fields.
std::string guess_type(const Json& json) {
  if (find_field(json, "merges")) return "BPE";
  if (const Json* vocab = find_field(json, "vocab"); vocab && vocab->is_array()) return "Unigram";
  return find_field(json, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

}  // namespace

Result<std::unique_ptr<const TokenModel>> TokenModel::from_json(const Json& json, bool raw_bytes) {
  if (!json.is_object()) return error_at("", "expected an object, found {}", json.type_name());
  MAKAR_TRY(const std::string type, string_field(json, "type", guess_type(json)));
  Result<std::unique_ptr<const TokenModel>> model = Error{};
  if (type == "BPE")
    model = Bpe::from_json(json, raw_bytes);
  else if (type == "WordPiece")
    model = make_wordpiece(json);
  else if (type == "Unigram")
    model = Unigram::from_json(json);
  else if (type == "WordLevel")
    model = make_word_level(json);
  else
    return error_of(Error::Kind::kUnsupported, "", "unknown model type {}{}", quote(type),
                    did_you_mean(type.substr(0, 80), {"BPE", "WordPiece", "Unigram", "WordLevel"}));
  if (!model.ok()) return model.error().in(type);
  return model;
}

}  // namespace makar
