#include "cli/command.h"

namespace makar {

int run_bench(const std::vector<std::string>&);
int run_chat(const std::vector<std::string>&);
int run_classify(const std::vector<std::string>&);
int run_convert(const std::vector<std::string>&);
int run_data(const std::vector<std::string>&);
int run_demo(const std::vector<std::string>&);
int run_embed(const std::vector<std::string>&);
int run_fill(const std::vector<std::string>&);
int run_forward(const std::vector<std::string>&);
int run_generate(const std::vector<std::string>&);
int run_inspect(const std::vector<std::string>&);
int run_merge(const std::vector<std::string>&);
int run_pretrain(const std::vector<std::string>&);
int run_quantize(const std::vector<std::string>&);
int run_score(const std::vector<std::string>&);
int run_serve(const std::vector<std::string>&);
int run_sft(const std::vector<std::string>&);
int run_summarize(const std::vector<std::string>&);
int run_template(const std::vector<std::string>&);
int run_tokenizer(const std::vector<std::string>&);
int run_translate(const std::vector<std::string>&);
int run_version(const std::vector<std::string>&);

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"bench", "speed of a model on this machine", run_bench},
      {"chat", "talk with a model", run_chat},
      {"classify", "classes, tags, answers and images: train a head, and run it", run_classify},
      {"convert", "a model from one kind of file into another", run_convert},
      {"data", "look at datasets and prepare them for training", run_data},
      {"demo", "train a tiny model on a page of verse and let it write", run_demo},
      {"embed", "texts to vectors", run_embed},
      {"fill", "the words a masked model expects", run_fill},
      {"forward", "run a model on tensors of a file", run_forward},
      {"generate", "continue a prompt", run_generate},
      {"inspect", "show a model's structure, sizes and costs", run_inspect},
      {"merge", "fold an adapter into its base", run_merge},
      {"pretrain", "train a language model on text", run_pretrain},
      {"quantize", "a model in fewer bits, and what that loses", run_quantize},
      {"score", "log-probabilities of texts", run_score},
      {"serve", "a model behind HTTP, for the clients of others", run_serve},
      {"sft", "fine-tune on conversations, whole or through an adapter", run_sft},
      {"summarize", "summarize by a sequence-to-sequence model", run_summarize},
      {"template", "render chat templates", run_template},
      {"tokenizer", "train, run, inspect and convert tokenizers", run_tokenizer},
      {"translate", "translate by a sequence-to-sequence model", run_translate},
      {"version", "print the version", run_version},
  };
  return table;
}

}  // namespace makar
