// The stages of `makar demo` that make a model: data, tokenizer, pretraining, instruction tuning, alignment.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "cli/demo_use_stages.h"
#include "cli/run.h"

namespace makar {
namespace {

// The layout of questions and answers in the pretraining text. A source that `makar ask` found is shown as a
// story.
constexpr const char* kChatTemplate = R"({%- for m in messages -%}
{%- if m['role'] == 'assistant' -%}
Answer:{% generation %} {{ m['content'] | trim }}<|endoftext|>{% endgeneration %}{{ '\n\n' }}
{%- elif m['role'] == 'user' and m['content'].startswith('[1] ') -%}
Story: {{ m['content'].split('\n', 1)[1] }}{{ '\n' }}
{%- elif m['role'] == 'user' -%}
{{ m['content'] }}{{ '\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
Answer:
{%- endif -%}
)";

// Qwen 3's attention, which norms queries and keys, learns to look things up in fewer steps than Llama's.
constexpr int64_t kVocabulary = 3200, kQuickVocabulary = 400;
constexpr const char* kConfig =
    R"({{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64,
 "num_hidden_layers": {}, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32,
 "intermediate_size": 192, "rms_norm_eps": 1e-06, "max_position_embeddings": 192, "rope_theta": 10000.0,
 "tie_word_embeddings": true, "vocab_size": {}, "hidden_act": "silu", "bos_token_id": 0, "eos_token_id": 0}}
)";

constexpr const char* kTaskFile =
    R"(# Questions about stories of people who never meet in the training data; made by makar demo.
task: world_questions
dataset_path: questions
dataset_kwargs:
  data_files: {test: questions.jsonl}
test_split: test
output_type: generate_until
doc_to_text: "{{ prompt }}\nAnswer:"
doc_to_target: "{{ answer }}"
generation_kwargs:
  until: ["\n"]
  max_gen_toks: 24
filter_list:
  - {name: none, filter: [{function: remove_whitespace}, {function: take_first}]}
metric_list:
  - metric: exact_match
metadata: {version: 1}
)";

// The words of a command line; DIR is the folder of the demo.
CommandWords command_words(const DemoRun& demo, const std::string& text) {
  CommandWords out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    if (word.starts_with("DIR")) word.replace(0, 3, demo.settings().folder);
    if (!word.empty()) out.push_back(std::move(word));
    at = end + 1;
  }
  return out;
}

Status make_world(DemoRun& demo, const char* form, const std::string& count, int seed, const char* file,
                  const char* more = "") {
  return demo.makar(
      command_words(demo, fmt::format("data world --form {} -n {} --seed {} --events 3 --kinds {} {} "
                                      "-o DIR/{}",
                                      form, count, seed, kDemoKinds, more, file)));
}

Status make_data(DemoRun& demo) {
  constexpr const char* kTest = "--split test";
  MAKAR_RETURN_IF_ERROR(make_world(demo, "text", demo.size(40000, 400), 1, "text.jsonl"));
  MAKAR_RETURN_IF_ERROR(make_world(demo, "text", demo.size(200, 20), 1, "text-test.jsonl", kTest));
  MAKAR_RETURN_IF_ERROR(make_world(demo, "instructions", demo.size(40000, 200), 2, "chat.jsonl"));
  MAKAR_RETURN_IF_ERROR(make_world(demo, "instructions", demo.size(100, 20), 2, "chat-test.jsonl", kTest));
  MAKAR_RETURN_IF_ERROR(make_world(demo, "rewards", demo.size(4000, 100), 3, "rewards.jsonl"));
  MAKAR_RETURN_IF_ERROR(make_world(demo, "rewards", demo.size(64, 8), 4, "rewards-test.jsonl", kTest));
  MAKAR_RETURN_IF_ERROR(
      make_world(demo, "rewards", demo.size(200, 10), 5, "questions/questions.jsonl", kTest));
  MAKAR_TRY(const auto texts, read_records(demo.path("text-test.jsonl")));
  std::string plain;
  for (const Json& record : texts) plain += record.value("text", "") + "\n\n";
  MAKAR_RETURN_IF_ERROR(write_file(demo.path("text-test.txt"), plain));
  MAKAR_RETURN_IF_ERROR(write_file(demo.path("chat.jinja"), kChatTemplate));
  MAKAR_RETURN_IF_ERROR(write_file(demo.path("world_questions.yaml"), kTaskFile));
  MAKAR_TRY(const auto questions, read_records(demo.path("questions/questions.jsonl")));
  const Json& question = questions.front();
  fmt::print("\nOne question of the test set:\n\n");
  demo.say(question.value("prompt", ""));
  fmt::print("-> {}\n\n", question.value("answer", ""));
  MAKAR_RETURN_IF_ERROR(demo.makar({"data", "stats", demo.path("text.jsonl")}));
  MAKAR_TRY(const std::string text, read_file(demo.path("text.jsonl")));
  demo.figure("pretraining text", fmt::format("{:.1f} MB", static_cast<double>(text.size()) / 1e6));
  return Done{};
}

Status make_tokenizer(DemoRun& demo) {
  MAKAR_RETURN_IF_ERROR(demo.makar(command_words(demo, "tokenizer train DIR/text.jsonl --vocab-size " +
                                                           demo.size(kVocabulary, kQuickVocabulary) +
                                                           " --special <|endoftext|> -o DIR/tokenizer")));
  const std::string sentence = "Margarethe took the red umbrella to the lighthouse.";
  std::string pieces;
  MAKAR_RETURN_IF_ERROR(demo.makar(
      {"tokenizer", "encode", demo.path("tokenizer/tokenizer.json"), "--text", sentence, "--pieces"}, &pieces,
      false));
  MAKAR_TRY(const Json tokens, parse_json(pieces, "makar tokenizer encode"));
  std::string line;
  for (const Json& token : tokens) line += (line.empty() ? "" : " ") + token.get<std::string>();
  demo.say(line);
  demo.say("Words that the stories use are one token, others several; Ġ is the space before a word.");
  if (!tokens.empty())
    demo.figure(
        "bytes per token of this sentence",
        fmt::format("{:.2f}", static_cast<double>(sentence.size()) / static_cast<double>(tokens.size())));
  return Done{};
}

Status pretrain_base(DemoRun& demo) {
  MAKAR_RETURN_IF_ERROR(
      write_file(demo.path("model.json"),
                 fmt::format(kConfig, demo.size(4, 2), demo.size(kVocabulary, kQuickVocabulary))));
  CommandWords words = command_words(
      demo,
      fmt::format("pretrain -d DIR/text.jsonl --val-datasets DIR/text-test.jsonl --tokenizer DIR/tokenizer "
                  "--config DIR/model.json --sequence-len 192 --micro-batch-size {} "
                  "--max-steps {} --optimizer muon --learning-rate 3e-3 --warmup-steps {} "
                  "--lr-scheduler constant_with_warmup --weight-decay 0.05 --beta2 0.98 --eval-steps {} "
                  "--sample-steps {} "
                  "--save-steps {} --logging-steps {} --seed 1 -o DIR/base --prompt",
                  demo.size(8, 4), demo.size(3000, 12), demo.size(40, 2), demo.size(750, 6),
                  demo.size(750, 6), demo.size(250, 4), demo.size(150, 6)));
  words.push_back("Anna");
  MAKAR_RETURN_IF_ERROR(demo.makar_threads(words));
  MAKAR_TRY(const RunFigures log, read_log(demo.path("base")));
  const size_t width = std::clamp<size_t>(terminal_width(), 30, 100) - 12;
  fmt::print("\nloss by step, 1 to {}:\n{}", log.losses.size(), text_curve(log.losses, width, 8));
  demo.figure("validation loss",
              fmt::format("{:.3f} (perplexity {:.2f}); {:.2f} before training", log.validation_loss,
                          std::exp(log.validation_loss), log.losses.empty() ? 0.0 : log.losses.front()));
  return Done{};
}

Status tune_chat(DemoRun& demo) {
  MAKAR_TRY(const Accuracy before, demo_accuracy(demo, "base", "eval-base"));
  MAKAR_RETURN_IF_ERROR(demo.makar_threads(command_words(
      demo,
      fmt::format(
          "sft -m DIR/base -d DIR/chat.jsonl --val-datasets DIR/chat-test.jsonl --chat-template "
          "DIR/chat.jinja --sequence-len 192 --sample-packing --micro-batch-size {} --max-steps {} "
          "--optimizer muon --learning-rate 3e-3 --min-lr 1e-4 --warmup-steps {} --lr-scheduler linear "
          "--weight-decay 0.05 --save-steps {} --logging-steps {} --seed 2 -o DIR/chat",
          demo.size(8, 4), demo.size(3000, 8), demo.size(20, 2), demo.size(250, 4), demo.size(150, 4)))));
  MAKAR_TRY(const Accuracy after, demo_accuracy(demo, "chat", "eval-chat"));
  demo.figure("right answers to unseen questions",
              fmt::format("{} before, {} after", before.text(), after.text()));
  return Done{};
}

Status align_by_rewards(DemoRun& demo) {
  MAKAR_RETURN_IF_ERROR(demo.makar_threads(command_words(
      demo, fmt::format(
                "grpo -m DIR/chat -d DIR/rewards.jsonl --val-datasets DIR/rewards-test.jsonl --reward world "
                "--num-generations {} --max-completion-length 16 --micro-batch-size {} "
                "--gradient-accumulation-steps 1 --max-steps {} --learning-rate 1e-4 --epsilon-high 0.28 "
                "--save-steps {} --logging-steps {} --seed 3 -o DIR/aligned",
                demo.size(8, 4), demo.size(64, 8), demo.size(40, 4), demo.size(10, 2), demo.size(5, 2)))));
  MAKAR_TRY(const RunFigures log, read_log(demo.path("aligned")));
  if (log.rewards.empty()) return error_at(demo.path("aligned/log.jsonl"), "has no rewards");
  const size_t part = std::max<size_t>(1, log.rewards.size() / 5);
  double first = 0, last = 0;
  for (size_t i = 0; i < part; ++i) {
    first += log.rewards[i] / static_cast<double>(part);
    last += log.rewards[log.rewards.size() - 1 - i] / static_cast<double>(part);
  }
  demo.figure("mean reward of sampled answers",
              fmt::format("{:.2f} in the first {} steps, {:.2f} in the last {}", first, part, last, part));
  return Done{};
}

}  // namespace

const std::vector<DemoStage>& demo_stages() {
  static const std::vector<DemoStage> stages = {
      {"data",
       "Data: a world in which every question has one answer",
       "A small simulated world gives stories, questions about them with answers that a program can check, "
       "and a test set about people who never meet in the training data.",
       {"text.jsonl", "text-test.jsonl", "text-test.txt", "chat.jsonl", "chat-test.jsonl", "rewards.jsonl",
        "rewards-test.jsonl", "questions", "chat.jinja", "world_questions.yaml"},
       make_data},
      {"tokenizer",
       "Tokenizer: text as numbers",
       "Byte-pair encoding merges the most frequent neighbours.",
       {"tokenizer"},
       make_tokenizer},
      {"pretrain",
       "Pretraining: predict the next token",
       "A model with 400,000 parameters starts from random weights and learns to predict the stories. Watch "
       "the loss and the samples.",
       {"base", "model.json"},
       pretrain_base},
      {"tune",
       "Instruction tuning: answer when asked",
       "The same model learns from conversations; only the answers count for the loss.",
       {"chat", "eval-base", "eval-chat"},
       tune_chat},
      {"align",
       "Alignment: learn from a checker",
       "GRPO: the model answers each question several times, a checker rewards the right answers with 1, and "
       "the model learns from the differences.",
       {"aligned"},
       align_by_rewards},
      {"evaluate",
       "Evaluation: how good, and how sure",
       "Both models answer the same unseen questions; the paired comparison gives a 95 % interval.",
       {"eval-aligned"},
       demo_evaluate},
      {"quantize",
       "Quantization: smaller and faster",
       "Weights in 8 and in 4 bits instead of 32; the report compares their predictions with the original's.",
       {"world-q8_0.gguf", "world-q4_0.gguf"},
       demo_quantize},
      {"inside",
       "A look inside: where attention goes",
       "Each row is a token, each column a token that it attends to; darker is more. The last row looks for "
       "the word that the answer begins with.",
       {},
       demo_look},
      {"retrieve",
       "Retrieval: an answer with its source",
       "Stories as files in a folder, an index of their words, and a question: the passage that fits best "
       "goes to the model with the question.",
       {"stories", "stories.db"},
       demo_retrieve},
      {"serve",
       "Serving: the model behind an API and a page",
       "OpenAI's, Anthropic's and Ollama's protocols, and a page for chat and for looking inside.",
       {},
       demo_serve},
  };
  return stages;
}

}  // namespace makar
