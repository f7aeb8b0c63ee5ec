// The first tokens of a text file, for calibrating and comparing models.
#pragma once
#include <string>
#include <vector>

#include "base/file.h"
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

}  // namespace makar
