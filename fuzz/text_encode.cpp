// Any bytes as text for a byte-level BPE tokenizer: decoding restores the bytes, and the fast path agrees
// with the pipeline.
#include "base/json.h"
#include "target.h"
#include "text/byte_alphabet.h"
#include "text/read/build_json.h"
#include "text/read/patterns.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

using namespace makar;

namespace {

Tokenizer make(const char* pattern) {
  Json json = empty_tokenizer();
  Json vocab = Json::object();
  for (uint32_t b = 0; b < 256; ++b)
    put_token(vocab, bytes_to_letters(std::string(1, static_cast<char>(b))), b);
  const char* const merges[] = {"t h", "th e", "a a", "aa aa", "\u0120 the", "i n", "in g", "\u00E2 \u0124"};
  Json list = Json::array();
  uint32_t next = 256;
  for (const std::string merge : merges) {
    const size_t space = merge.find(' ');
    put_token(vocab, merge.substr(0, space) + merge.substr(space + 1), next++);
    list.push_back(merge);
  }
  json["model"] = {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(list)}};
  json["pre_tokenizer"] =
      sequence_stage("pretokenizers", Json::array({split_stage(pattern), byte_level_stage(false, false)}));
  json["decoder"] = byte_level_stage(false, false);
  json["added_tokens"] = Json::array({added_token(300, "<|end|>", true), added_token(301, "aaa", false)});
  auto tokenizer = Tokenizer::from_json(std::move(json), "fuzz");
  return *tokenizer;
}

}  // namespace

FUZZ_TARGET(text_encode) {
  static const Tokenizer tokenizers[] = {make(kCl100kPattern), make(kO200kPattern), make(kQwen2Pattern)};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Tokenizer& tokenizer : tokenizers) {
    EncodeOptions options;
    const auto fast = tokenizer.encode(text, options);
    options.fast_paths = false;
    const auto slow = tokenizer.encode(text, options);
    check(fast.ok() && slow.ok(), "any bytes can be encoded");
    check(fast->ids == slow->ids && fast->offsets == slow->offsets, "the fast path agrees");
    check(tokenizer.decode_bytes(fast->ids) == text, "decoding restores the bytes");
    check(is_valid_utf8(tokenizer.decode(fast->ids)), "decoded text is UTF-8");
    for (const uint32_t id : fast->ids) check(id != 300, "plain text gives no control id");
    StreamDecoder stream(tokenizer);
    std::string streamed;
    for (const uint32_t id : fast->ids) streamed += stream.push(id);
    streamed += stream.finish();
    check(streamed == tokenizer.decode(fast->ids), "streaming gives the same text");
  }
  return 0;
}
