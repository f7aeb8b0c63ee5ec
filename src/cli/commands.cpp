#include "cli/command.h"

namespace makar {

int run_convert(const std::vector<std::string>&);
int run_demo(const std::vector<std::string>&);
int run_forward(const std::vector<std::string>&);
int run_generate(const std::vector<std::string>&);
int run_inspect(const std::vector<std::string>&);
int run_quantize(const std::vector<std::string>&);
int run_template(const std::vector<std::string>&);
int run_tokenizer(const std::vector<std::string>&);
int run_version(const std::vector<std::string>&);

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"convert", "a model from one kind of file into another", run_convert},
      {"demo", "train a tiny model on a page of verse and let it write", run_demo},
      {"forward", "run a model on tensors of a file", run_forward},
      {"generate", "continue a prompt", run_generate},
      {"inspect", "show a model's structure, sizes and costs", run_inspect},
      {"quantize", "a model in fewer bits, and what that loses", run_quantize},
      {"template", "render chat templates", run_template},
      {"tokenizer", "train, run, inspect and convert tokenizers", run_tokenizer},
      {"version", "print the version", run_version},
  };
  return table;
}

}  // namespace makar
