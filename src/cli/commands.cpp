// The table of commands.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/nearest.h"
#include "cli/command_pages.h"

namespace makar {

int run_agent_command(const std::vector<std::string>&);
int run_ask(const std::vector<std::string>&);
int run_bench(const std::vector<std::string>&);
int run_chat(const std::vector<std::string>&);
int run_classify(const std::vector<std::string>&);
int run_convert(const std::vector<std::string>&);
int run_data(const std::vector<std::string>&);
int run_completion(const std::vector<std::string>&);
int run_doctor(const std::vector<std::string>&);
int run_reference(const std::vector<std::string>&);
int run_demo(const std::vector<std::string>&);
int run_distill(const std::vector<std::string>&);
int run_dpo(const std::vector<std::string>&);
int run_embed(const std::vector<std::string>&);
int run_caption(const std::vector<std::string>&);
int run_card(const std::vector<std::string>&);
int run_detect(const std::vector<std::string>&);
int run_eval(const std::vector<std::string>&);
int run_judge(const std::vector<std::string>&);
int run_fill(const std::vector<std::string>&);
int run_forward(const std::vector<std::string>&);
int run_generate(const std::vector<std::string>&);
int run_grpo(const std::vector<std::string>&);
int run_index(const std::vector<std::string>&);
int run_inspect(const std::vector<std::string>&);
int run_list(const std::vector<std::string>&);
int run_merge(const std::vector<std::string>&);
int run_metrics(const std::vector<std::string>&);
int run_net(const std::vector<std::string>&);
int run_ngram(const std::vector<std::string>&);
int run_perplexity(const std::vector<std::string>&);
int run_pipeline(const std::vector<std::string>&);
int run_ppo(const std::vector<std::string>&);
int run_pretrain(const std::vector<std::string>&);
int run_prompt_command(const std::vector<std::string>&);
int run_prune(const std::vector<std::string>&);
int run_pull(const std::vector<std::string>&);
int run_quantize(const std::vector<std::string>&);
int run_reward(const std::vector<std::string>&);
int run_score(const std::vector<std::string>&);
int run_search(const std::vector<std::string>&);
int run_serve(const std::vector<std::string>&);
int run_sft(const std::vector<std::string>&);
int run_sql(const std::vector<std::string>&);
int run_summarize(const std::vector<std::string>&);
int run_template(const std::vector<std::string>&);
int run_tokenizer(const std::vector<std::string>&);
int run_translate(const std::vector<std::string>&);
int run_vectors(const std::vector<std::string>&);
int run_version(const std::vector<std::string>&);

namespace {

constexpr const char *kGet = "Get a model", *kData = "Prepare data", *kTrain = "Train",
                     *kCompress = "Convert and compress", *kUse = "Use", *kMeasure = "Measure and inspect",
                     *kOther = "Other";
constexpr Command kCommands[] = {
    {"pull", "download a model or a dataset", run_pull, kGet},
    {"list", "list the downloaded models", run_list, kGet},
    {"data", "generate, count and tokenize datasets", run_data, kData},
    {"tokenizer", "train, run, inspect and convert tokenizers", run_tokenizer, kData},
    {"template", "render chat templates", run_template, kData},
    {"pretrain", "train a language model on text", run_pretrain, kTrain},
    {"sft", "fine-tune on conversations, whole or with an adapter", run_sft, kTrain},
    {"reward", "train a model that scores answers, and score with it", run_reward, kTrain},
    {"dpo", "train on pairs of a better and a worse answer", run_dpo, kTrain},
    {"grpo", "train with rewards of sampled answers, relative to their group", run_grpo, kTrain},
    {"ppo", "train with rewards of sampled answers and a value model", run_ppo, kTrain},
    {"distill", "train a smaller model on the predictions of a larger one", run_distill, kTrain},
    {"classify", "train and run classifiers of texts, tokens and images", run_classify, kTrain},
    {"net", "train small networks: tables, autoencoders, GANs", run_net, kTrain},
    {"ngram", "train, score and sample n-gram language models", run_ngram, kTrain},
    {"vectors", "train and query word vectors", run_vectors, kTrain},
    {"pipeline", "run several commands in order; resumes after an interruption", run_pipeline, kTrain},
    {"merge", "merge an adapter into its base model", run_merge, kTrain},
    {"convert", "convert a model between file formats", run_convert, kCompress},
    {"quantize", "quantize a model and measure the loss", run_quantize, kCompress},
    {"prune", "remove weights, heads, channels or layers of a model", run_prune, kCompress},
    {"generate", "continue a prompt", run_generate, kUse},
    {"chat", "chat with a model in the terminal", run_chat, kUse},
    {"serve", "serve models over HTTP (OpenAI, Anthropic and Ollama APIs)", run_serve, kUse},
    {"caption", "describe images", run_caption, kUse},
    {"embed", "turn texts and images into vectors", run_embed, kUse},
    {"fill", "predict masked words", run_fill, kUse},
    {"index", "put documents into an index: add, list, show, remove, check", run_index, kUse},
    {"search", "search an index: BM25, vectors or both", run_search, kUse},
    {"ask", "answer a question from an index, with citations", run_ask, kUse},
    {"sql", "answer a question about a database with a query", run_sql, kUse},
    {"agent", "answer a question in steps with tools", run_agent_command, kUse},
    {"prompt", "run, test and tune prompt programs", run_prompt_command, kUse},
    {"translate", "translate with a sequence-to-sequence model", run_translate, kUse},
    {"summarize", "summarize with a sequence-to-sequence model", run_summarize, kUse},
    {"inspect", "show a model's structure, sizes and costs", run_inspect, kMeasure},
    {"score", "compute log-probabilities of texts", run_score, kMeasure},
    {"perplexity", "compute the perplexity of a text", run_perplexity, kMeasure},
    {"metrics", "score texts, labels and rankings: BLEU, ROUGE, F1, nDCG, ...", run_metrics, kMeasure},
    {"eval", "evaluate a model on tasks: MMLU, PIQA, GSM8K, perplexity, ...", run_eval, kMeasure},
    {"judge", "judge answers with a model: pairs, scores, consistency, ...", run_judge, kMeasure},
    {"detect", "detect generated text: watermark, log-rank, curvature", run_detect, kMeasure},
    {"card", "write a model card from a model and its results", run_card, kMeasure},
    {"bench", "measure the speed of a model on this machine", run_bench, kMeasure},
    {"forward", "run a model on the tensors of a file", run_forward, kMeasure},
    {"doctor", "show this machine's hardware, its speed, and the models that fit", run_doctor, kOther},
    {"completion", "print the completion script of a shell: bash, zsh, fish", run_completion, kOther},
    {"reference", "print the options of all commands: Markdown, man pages, JSON", run_reference, kOther},
    {"demo", "make a small model in ten stages, from data to server", run_demo, kOther},
    {"version", "print the version", run_version, kOther},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

void print_commands(std::FILE* out, std::span<const Command> table) {
  std::string_view group;
  size_t width = 12;
  for (const Command& command : table) width = std::max(width, std::string_view(command.name).size());
  for (const Command& command : table) {
    if (command.group != group) fmt::print(out, "{}{}\n", group.empty() ? "" : "\n", command.group);
    group = command.group;
    fmt::print(out, "  {:<{}} {}\n", command.name, width, command.summary);
  }
}

int run_subcommand(const std::string& command, const char* summary, const char* example,
                   std::span<const Command> table, const std::vector<std::string>& arguments) {
  if (collects_pages() && arguments.size() == 1)
    return store_page(CommandPage::from(command, summary, example, table)), 0;
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    std::FILE* out = arguments.empty() ? stderr : stdout;
    fmt::print(out, "{}\n\nusage: makar {} SUBCOMMAND [options]\n\n", summary, command);
    print_commands(out, table);
    fmt::print(out, "\n`makar {} SUBCOMMAND --help` lists the options of one.\n\nexample: {}\n", command,
               example);
    return arguments.empty() ? 2 : 0;
  }
  std::vector<std::string> known;
  for (const Command& one : table) {
    if (arguments[0] == one.name) return one.run({arguments.begin() + 1, arguments.end()});
    known.emplace_back(one.name);
  }
  if (arguments[0].starts_with("-"))
    fmt::print(stderr, "makar {}: expected a subcommand first, got '{}'; the subcommands are {}\n", command,
               arguments[0], fmt::join(known, ", "));
  else
    fmt::print(stderr, "makar {}: unknown subcommand '{}'{}\n", command, arguments[0],
               did_you_mean(arguments[0], known));
  return 2;
}

}  // namespace makar
