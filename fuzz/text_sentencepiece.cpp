// Any bytes as a SentencePiece model.
#include "target.h"
#include "text/read/read.h"
#include "text/tokenizer.h"

using namespace makar;

FUZZ_TARGET(text_sentencepiece) {
  auto json = sentencepiece_to_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!json.ok()) return 0;
  const auto tokenizer = Tokenizer::from_json(std::move(*json), "fuzz");
  if (!tokenizer.ok()) return 0;
  const auto encoding = tokenizer->encode("Hello  world \u00BD\xFF");
  if (encoding.ok()) tokenizer->decode(encoding->ids);
  return 0;
}
