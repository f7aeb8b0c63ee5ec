// Which tokens of a vocabulary begin, end, pad and mask texts, and their ids in the config of a new model.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace makar {

// Tokens by the names of tokenizer_config.json: bos_token, eos_token, unk_token, sep_token, pad_token,
// cls_token, mask_token.
class TokenRoles {
 public:
  // Reads tokenizer_config.json and special_tokens_map.json in `folder` if present; otherwise matches the
  // usual spellings ("</s>", "[PAD]", ...).
  static TokenRoles of(const Tokenizer& tokenizer, const std::string& folder);
  int64_t id(const std::string& role) const;  // -1: the vocabulary has none
  Json to_json() const;                       // {"eos_token": "</s>", ...}

 private:
  struct Token {
    std::string text;
    int64_t id;
  };
  std::map<std::string, Token> tokens_;
};

// Sets bos_token_id, eos_token_id, pad_token_id and the ids derived from them. Keeps ids of the config that
// are already control tokens of this tokenizer.
void set_special_ids(Json& config, const TokenRoles& roles, const Tokenizer& tokenizer);

// Defaults for a new model of this model_type: the kind of tokenizer to train, and its control tokens.
std::string default_tokenizer(const std::string& model_type);
std::vector<std::string> control_tokens(const std::string& model_type, const std::string& tokenizer_kind);

}  // namespace makar
