// WordPiece: the longest matching token at each position, from left to right; a word that cannot be covered
// is unknown.
#include "text/wordpiece.h"

#include "base/quote.h"
#include "text/byte_trie.h"
#include "text/field.h"
#include "text/unicode.h"

namespace makar {
namespace {

class WordPiece : public TokenModel {
 public:
  WordPiece(Vocabulary vocabulary, std::string unknown, std::string prefix, uint64_t max_characters)
      : vocabulary_(std::move(vocabulary)),
        unknown_text_(std::move(unknown)),
        prefix_(std::move(prefix)),
        max_characters_(max_characters) {
    unknown_ = vocabulary_.find(unknown_text_);
    std::vector<std::pair<std::string_view, uint32_t>> starting, continuing;
    for (uint32_t id = 0; id < vocabulary_.size(); ++id) {
      const auto token = vocabulary_.token(id);
      if (!token || vocabulary_.find(*token) != id) continue;
      starting.emplace_back(*token, id);
      if (token->starts_with(prefix_)) continuing.emplace_back(token->substr(prefix_.size()), id);
    }
    starting_.build(std::move(starting));
    continuing_.build(std::move(continuing));
  }

  Status tokenize(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out,
                  WorkBudget* work) const override {
    const size_t first = out.size();
    if (word.size() > max_characters_ && count_code_points(word) > max_characters_)
      return put_unknown(word, out);
    for (size_t begin = 0; begin < word.size();) {
      uint32_t id = kNoId;
      size_t end = begin;
      (begin == 0 ? starting_ : continuing_).prefixes(word.substr(begin), [&](size_t length, uint32_t found) {
        if (banned && found < banned->size() && (*banned)[found]) return true;
        if (begin + length < word.size() && is_utf8_continuation(word[begin + length])) return true;
        id = found;
        end = begin + length;
        return true;
      });
      if (id == kNoId) {
        out.resize(first);
        return put_unknown(word, out);
      }
      out.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
      begin = end;
    }
    return Done{};
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  uint32_t unknown_id() const override { return unknown_; }

 private:
  Status put_unknown(std::string_view word, std::vector<ModelToken>& out) const {
    if (unknown_ == kNoId)
      return error_at("unk_token",
                      "a word cannot be tokenized, and the unknown token {} is not in the vocabulary",
                      quote(unknown_text_));
    out.push_back({unknown_, 0, static_cast<uint32_t>(word.size())});
    return Done{};
  }

  Vocabulary vocabulary_;
  std::string unknown_text_, prefix_;
  uint64_t max_characters_;
  uint32_t unknown_ = kNoId;
  ByteTrie starting_, continuing_;  // tokens at the start of a word, and later tokens without their prefix
};

}  // namespace

Result<std::unique_ptr<const TokenModel>> make_wordpiece(const Json& json) {
  const Json* vocab = find_field(json, "vocab");
  if (!vocab) return wrong_field(json, "vocab", "an object that maps tokens to ids");
  MAKAR_TRY(Vocabulary vocabulary, Vocabulary::from_json(*vocab));
  MAKAR_TRY(std::string unknown, string_field(json, "unk_token", "[UNK]"));
  MAKAR_TRY(std::string prefix, string_field(json, "continuing_subword_prefix", "##"));
  MAKAR_TRY(const uint64_t max_characters, count_field(json, "max_input_chars_per_word", 100));
  return std::unique_ptr<const TokenModel>(
      new WordPiece(std::move(vocabulary), std::move(unknown), std::move(prefix), max_characters));
}

}  // namespace makar
