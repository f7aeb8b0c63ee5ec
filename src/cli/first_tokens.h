// The first tokens of a text file, for calibrating and comparing models.
#pragma once
#include <string>
#include <vector>

#include "base/file.h"
#include "models/spec.h"
#include "text/tokenizer.h"

namespace makar {

// At most `max` tokens, with the special tokens that the tokenizer adds. `tokenizer`: a file or a model.
inline Result<std::vector<int64_t>> first_tokens(const std::string& tokenizer, const std::string& path,
                                                 int64_t max) {
  MAKAR_TRY(const Tokenizer t, Tokenizer::load(tokenizer));
  MAKAR_TRY(std::string text, read_file(path));
  // Tokens have far fewer than 16 bytes on average, so the rest of the text is not needed.
  if (text.size() > static_cast<size_t>(max) * 16) text.resize(static_cast<size_t>(max) * 16);
  EncodeOptions options;
  options.offsets = false, options.add_special = true;
  MAKAR_TRY(const Encoding encoding, t.encode(text, options));
  std::vector<int64_t> ids(encoding.ids.begin(), encoding.ids.end());
  if (static_cast<int64_t>(ids.size()) > max) ids.resize(static_cast<size_t>(max));
  return ids;
}

// The same for a model with this description. The tokenizer may have ids beyond the model's vocabulary.
inline Result<std::vector<int64_t>> first_tokens(const std::string& tokenizer, const std::string& path,
                                                 int64_t max, const ModelSpec& spec) {
  MAKAR_TRY(std::vector<int64_t> ids, first_tokens(tokenizer, path, max));
  if (ids.size() < 2) return error_at(path, "has {} tokens; a text of some thousands is needed", ids.size());
  for (const int64_t id : ids)
    if (id >= spec.vocab)
      return error_at(path, "the tokenizer gives id {}, the model has a vocabulary of {}", id, spec.vocab);
  return ids;
}

}  // namespace makar
