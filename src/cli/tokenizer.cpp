// makar tokenizer SUBCOMMAND: each subcommand is one file and one line in the table.
#include "cli/command.h"

namespace makar {

int run_tokenizer_compare(const std::vector<std::string>&);
int run_tokenizer_convert(const std::vector<std::string>&);
int run_tokenizer_decode(const std::vector<std::string>&);
int run_tokenizer_encode(const std::vector<std::string>&);
int run_tokenizer_info(const std::vector<std::string>&);
int run_tokenizer_train(const std::vector<std::string>&);

namespace {

constexpr Command kTokenizerCommands[] = {
    {"train", "train a tokenizer on text files", run_tokenizer_train},
    {"encode", "text to token ids", run_tokenizer_encode},
    {"decode", "token ids to text", run_tokenizer_decode},
    {"info", "show the pipeline, the vocabulary and bytes per token", run_tokenizer_info},
    {"compare", "show where two tokenizers differ on a text", run_tokenizer_compare},
    {"convert", "convert a tokenizer to tokenizer.json or a SentencePiece model", run_tokenizer_convert},
};

}  // namespace

int run_tokenizer(const std::vector<std::string>& arguments) {
  return run_subcommand("tokenizer", "Train, run, inspect and convert tokenizers.",
                        "echo 'Hello world' | makar tokenizer encode tokenizer.json", kTokenizerCommands,
                        arguments);
}

}  // namespace makar
