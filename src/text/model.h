// Models: the third stage of a pipeline, which cuts one word into tokens.
#pragma once
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/vocabulary.h"

namespace makar {

// A token and the bytes of the word it covers.
struct ModelToken {
  uint32_t id, begin, end;
  bool operator==(const ModelToken&) const = default;
};

// Ids a word may not give: control tokens, where the text is plain. Null allows all.
using Banned = std::vector<bool>;

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual Status tokenize(std::string_view word, const Banned* banned,
                          std::vector<ModelToken>& out) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;
  virtual uint32_t unknown_id() const { return kNoId; }
  // Whether the same word always gives the same tokens (no dropout).
  virtual bool deterministic() const { return true; }
  virtual Status tokenize_dropout(std::string_view word, uint64_t seed, std::vector<ModelToken>& out) const {
    return tokenize(word, nullptr, out);
  }
  // Whether the tokens of a word may be kept for the next time it comes.
  virtual bool keeps_words() const { return deterministic(); }
  // Whether a run of text can be cut before every `mark` that follows another character without changing a
  // token.
  virtual bool splits_before(std::string_view mark) const { return false; }
  // Between which neighbours a merge can reach across: [left][right] of ASCII characters and kMarkColumn for
  // U+2581. Text may be cut anywhere else. Null when not known.
  static constexpr int kMarkColumn = 128, kColumns = 129;
  using Joins = std::array<std::array<uint8_t, kColumns>, kColumns>;
  virtual const Joins* joins() const { return nullptr; }
  // The "model" section: the parts that are large, put back into what was read.
  virtual void write(Json& model) const { model["vocab"] = vocabulary().to_json(); }

  // From the "model" section. `raw_bytes`: words come as bytes, the vocabulary is written in the byte
  // alphabet.
  static Result<std::unique_ptr<const TokenModel>> from_json(const Json& json, bool raw_bytes);
};

}  // namespace makar
