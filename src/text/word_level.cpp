// WordLevel: a whole word is one token, or unknown.
#include "text/word_level.h"

#include "base/quote.h"
#include "text/field.h"

namespace makar {
namespace {

class WordLevel : public TokenModel {
 public:
  WordLevel(Vocabulary vocabulary, std::string unknown)
      : vocabulary_(std::move(vocabulary)),
        unknown_text_(std::move(unknown)),
        unknown_(vocabulary_.find(unknown_text_)) {}

  Status tokenize(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out,
                  WorkBudget* work) const override {
    uint32_t id = vocabulary_.find(word);
    if (id == kNoId || (banned && id < banned->size() && (*banned)[id])) id = unknown_;
    if (id == kNoId)
      return error_at("unk_token", "a word is not in the vocabulary, and neither is the unknown token {}",
                      quote(unknown_text_));
    out.push_back({id, 0, static_cast<uint32_t>(word.size())});
    return Done{};
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  uint32_t unknown_id() const override { return unknown_; }

 private:
  Vocabulary vocabulary_;
  std::string unknown_text_;
  uint32_t unknown_;
};

}  // namespace

Result<std::unique_ptr<const TokenModel>> make_word_level(const Json& json) {
  const Json* vocab = find_field(json, "vocab");
  if (!vocab) return wrong_field(json, "vocab", "an object that maps tokens to ids");
  MAKAR_TRY(Vocabulary vocabulary, Vocabulary::from_json(*vocab));
  MAKAR_TRY(std::string unknown, string_field(json, "unk_token", "<unk>"));
  return std::unique_ptr<const TokenModel>(new WordLevel(std::move(vocabulary), std::move(unknown)));
}

}  // namespace makar
