// makar tokenizer convert: a tokenizer as tokenizer.json or SentencePiece .model.
#include "base/file.h"
#include "cli/run.h"
#include "text/read/read.h"
#include "text/read/sentencepiece.h"
#include "text/tokenizer.h"

namespace makar {

int run_tokenizer_convert(const std::vector<std::string>& arguments) {
  std::string from, to;
  Options options(
      "tokenizer convert",
      "Convert a tokenizer to tokenizer.json, or to a SentencePiece .model where that format allows it.",
      "makar tokenizer convert tokenizer.model tokenizer.json");
  options.positional("FROM", &from, "tokenizer file of any format, or a model folder");
  options.positional("TO", &to, "file to write: .json or .model");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto tokenizer = Tokenizer::load(from);
  if (!tokenizer.ok()) return report(tokenizer.error());
  std::string bytes;
  if (to.ends_with(".model")) {
    const auto model = json_to_sentencepiece(tokenizer->to_json());
    if (!model.ok()) return report(model.error().in(from));
    bytes = model->write();
  } else {
    bytes = tokenizer->to_json().dump(2) + "\n";
  }
  if (const Status written = write_file(to, bytes); !written.ok()) return report(written.error());
  fmt::print("{}: {} bytes\n", to, bytes.size());
  return 0;
}

}  // namespace makar
