#include "cli/tokenizer_options.h"

namespace makar {

void TokenizerOptions::declare(Options& options) {
  options.group("Input");
  options.add("-m --model --tokenizer", &model, "tokenizer: a file of any format, or a model folder", "PATH");
}

void TokenizerOptions::declare_special(Options& options) {
  options.group("Special tokens");
  options.add("--special", &special, "add the special tokens of the post-processor");
  options.add("--parse-special", &parse_special,
              "parse special tokens in the text; otherwise they are plain text");
  options.add("--forbid-special", &forbid_special, "fail if the text contains special tokens");
}

Status TokenizerOptions::resolve() {
  if (parse_special && forbid_special)
    return error_at("--parse-special", "contradicts --forbid-special; remove one of them");
  if (!model.empty()) return Done{};
  if (words.empty())
    return error_at("TOKENIZER", "is missing; name a file or a folder as the first argument, or with -m");
  model = words.front();
  words.erase(words.begin());
  return Done{};
}

EncodeOptions TokenizerOptions::encode_options() const {
  EncodeOptions options;
  options.add_special = special;
  options.special_text = parse_special    ? SpecialText::kParse
                         : forbid_special ? SpecialText::kForbid
                                          : SpecialText::kPlain;
  return options;
}

}  // namespace makar
