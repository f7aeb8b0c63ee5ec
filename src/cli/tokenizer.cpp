// makar tokenizer SUBCOMMAND: one file each, one line in the table.
#include <fmt/format.h>

#include <cstdio>

#include "base/nearest.h"
#include "cli/command.h"

namespace makar {

int run_tokenizer_compare(const std::vector<std::string>&);
int run_tokenizer_convert(const std::vector<std::string>&);
int run_tokenizer_decode(const std::vector<std::string>&);
int run_tokenizer_encode(const std::vector<std::string>&);
int run_tokenizer_info(const std::vector<std::string>&);
int run_tokenizer_train(const std::vector<std::string>&);

namespace {

const std::vector<Command>& subcommands() {
  static const std::vector<Command> table = {
      {"train", "text files to a tokenizer", run_tokenizer_train},
      {"encode", "text to ids", run_tokenizer_encode},
      {"decode", "ids to text", run_tokenizer_decode},
      {"info", "the pipeline, the vocabulary, bytes per token", run_tokenizer_info},
      {"compare", "where two tokenizers differ on a text", run_tokenizer_compare},
      {"convert", "any tokenizer file into tokenizer.json or a SentencePiece model", run_tokenizer_convert},
  };
  return table;
}

void print_help(FILE* out) {
  fmt::print(
      out,
      "text to ids and back, with any tokenizer file\n\nusage: makar tokenizer SUBCOMMAND [options]\n\n");
  for (const Command& one : subcommands()) fmt::print(out, "  {:<12} {}\n", one.name, one.summary);
  fmt::print(out, "\nexample: echo 'Hello world' | makar tokenizer encode tokenizer.json\n");
}

}  // namespace

int run_tokenizer(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    print_help(arguments.empty() ? stderr : stdout);
    return arguments.empty() ? 2 : 0;
  }
  std::vector<std::string> known;
  for (const Command& one : subcommands()) {
    if (arguments[0] == one.name) return one.run({arguments.begin() + 1, arguments.end()});
    known.emplace_back(one.name);
  }
  fmt::print(stderr, "makar tokenizer: unknown subcommand '{}'{}\n", arguments[0],
             did_you_mean(arguments[0], known));
  return 2;
}

}  // namespace makar
