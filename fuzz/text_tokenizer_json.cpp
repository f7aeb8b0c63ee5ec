// Any bytes as a tokenizer.json: an Error, or a tokenizer that encodes and decodes.
#include <string_view>

#include "base/json.h"
#include "target.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

using namespace makar;

FUZZ_TARGET(text_tokenizer_json) {
  auto json = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!json.ok()) return 0;
  const auto tokenizer = Tokenizer::from_json(std::move(*json), "fuzz");
  if (!tokenizer.ok()) {
    check(!tokenizer.error().message.empty() && tokenizer.error().text().size() < 4000,
          "an error has a bounded message");
    return 0;
  }
  for (const std::string_view text : {"Hello, world! 123  don't <s>[CLS]",
                                      "\u00C4pfel \u4E2D\u6587 e\u0301 \U0001F600", "\xFF\xE2\x82 a"}) {
    EncodeOptions options;
    options.special_text = SpecialText::kParse;
    options.add_special = true;
    const auto encoding = tokenizer->encode(text, options);
    if (!encoding.ok()) continue;
    check(encoding->ids.size() == encoding->offsets.size(), "one offset per id");
    for (const Span span : encoding->offsets)
      check(span.begin <= span.end && span.end <= text.size(), "offsets are inside the text");
    check(is_valid_utf8(tokenizer->decode(encoding->ids)), "decoded text is UTF-8");
  }
  return 0;
}
