#include "llm/infill.h"

namespace makar {
namespace {

// The special tokens before the prefix, the suffix and the middle.
struct FimTokens {
  const char *before, *after, *middle;
};

// Qwen and CodeGemma, StarCoder, DeepSeek, Code Llama, SantaCoder.
constexpr FimTokens kFimTokens[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, {"▁<PRE>", "▁<SUF>", "▁<MID>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
};

}  // namespace

Result<std::vector<int64_t>> encode_infill(const LanguageModel& language, const std::string& before,
                                           const std::string& after, WorkBudget* work) {
  const Tokenizer& tokenizer = language.tokenizer();
  for (const FimTokens& tokens : kFimTokens) {
    const auto first = tokenizer.id(tokens.before), second = tokenizer.id(tokens.after),
               third = tokenizer.id(tokens.middle);
    if (!first || !second || !third) continue;
    // Start with the tokenizer's usual prefix tokens. The text of the user cannot produce special tokens.
    MAKAR_TRY(const std::vector<int64_t> empty, language.encode(""));
    std::vector<int64_t> out;
    if (!empty.empty() && empty[0] == language.spec().bos) out.push_back(empty[0]);
    EncodeOptions plain;
    plain.offsets = false, plain.work = work;
    const auto add = [&](uint32_t token, const std::string& text) -> Status {
      out.push_back(token);
      MAKAR_TRY(const Encoding encoding, tokenizer.encode(text, plain));
      out.insert(out.end(), encoding.ids.begin(), encoding.ids.end());
      return Done{};
    };
    MAKAR_RETURN_IF_ERROR(add(*first, before));
    MAKAR_RETURN_IF_ERROR(add(*second, after));
    out.push_back(*third);
    return out;
  }
  return error_of(Error::Kind::kUnsupported, "suffix",
                  "the tokenizer of this model has no tokens for filling in the middle");
}

}  // namespace makar
