// Tokenizer models: the third pipeline stage, which splits one word into tokens.
#pragma once
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/work_budget.h"
#include "text/vocabulary.h"

namespace makar {

// A token and the byte range of the word it covers.
struct ModelToken {
  uint32_t id, begin, end;
  bool operator==(const ModelToken&) const = default;
};

// By id, whether a word must not produce it: true for control tokens when the text is plain. A null pointer
// allows all ids.
using BannedIds = std::vector<bool>;

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // `work`: limits the work on a long word; null: no limit.
  virtual Status tokenize(std::string_view word, const BannedIds* banned, std::vector<ModelToken>& out,
                          WorkBudget* work = nullptr) const = 0;

  virtual const Vocabulary& vocabulary() const = 0;
  virtual uint32_t unknown_id() const { return kNoId; }
  // Whether the same word always gives the same tokens (no dropout).
  virtual bool deterministic() const { return true; }
  virtual Status tokenize_dropout(std::string_view word, uint64_t seed, std::vector<ModelToken>& out,
                                  WorkBudget* work = nullptr) const {
    return tokenize(word, nullptr, out, work);
  }
  // Whether the tokens of a word may be cached.
  virtual bool can_cache_words() const { return deterministic(); }
  // Whether text can be split before every `mark` that follows another character without changing the tokens.
  virtual bool splits_before(std::string_view mark) const { return false; }
  // Which adjacent characters a merge can join: [left][right] of ASCII characters, and kMarkColumn for
  // U+2581. Text may be split between all other characters. Null when unknown.
  static constexpr int kMarkColumn = 128, kColumns = 129;
  using Joins = std::array<std::array<uint8_t, kColumns>, kColumns>;
  virtual const Joins* joins() const { return nullptr; }
  // Writes the large fields of the "model" section back.
  virtual void write(Json& model) const { model["vocab"] = vocabulary().to_json(); }

  // From the "model" section. `raw_bytes`: words are raw bytes; the vocabulary in the file uses the byte
  // alphabet.
  static Result<std::unique_ptr<const TokenModel>> from_json(const Json& json, bool raw_bytes);
};

}  // namespace makar
