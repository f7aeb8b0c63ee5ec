#include "text/token_bytes.h"

#include "text/byte_alphabet.h"

namespace makar {
namespace {

// A token to put before others, because decoders treat the first token differently.
std::vector<uint32_t> any_leading_token(const Tokenizer& tokenizer) {
  for (const char* text : {"a", "\u2581a", "e", "the"})
    if (const auto id = tokenizer.id(text)) return {*id};
  return {};
}

}  // namespace

std::vector<std::string> token_bytes(const Tokenizer& tokenizer) {
  std::vector<std::string> out(tokenizer.vocab_size());
  std::vector<uint32_t> ids = any_leading_token(tokenizer);
  const std::string before = tokenizer.decode_bytes(ids);
  ids.push_back(0);
  for (uint32_t id = 0; id < out.size(); ++id) {
    const auto token = tokenizer.token(id);
    if (!token || tokenizer.is_special(id)) continue;
    if (const auto byte = tokenizer.byte_level() ? std::nullopt : fallback_byte(*token)) {
      out[id] = std::string(1, static_cast<char>(*byte));
      continue;
    }
    ids.back() = id;
    const std::string decoded = tokenizer.decode_bytes(ids);
    if (decoded.compare(0, before.size(), before) == 0) out[id] = decoded.substr(before.size());
  }
  return out;
}

}  // namespace makar
