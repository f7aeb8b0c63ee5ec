// Shared by the commands that fine-tune a language model (sft, dpo, distill): the base model, an adapter on
// it, and the chat template.
#pragma once
#include "cli/train_run.h"
#include "llm/language_model.h"
#include "models/adapter.h"
#include "train/conversation.h"

namespace makar {

struct FineTuneOptions {
  TrainCommon common;
  std::string base_model, adapter, quantize_base, lora_model_dir, chat_template;
  std::vector<std::string> targets, modules_to_save;
  int64_t sequence_len = 1024, rank = 8;
  double alpha = 16, dropout = 0;
  bool rslora = false, dora = false;
  std::vector<std::string> given_options;  // names of the options that are set
  std::string saved_template;              // the chat template, if it is not the base model's own

  bool has_adapter() const { return !adapter.empty() || !lora_model_dir.empty(); }
};

void declare_base(Options& options, FineTuneOptions& s);     // the base model and its chat template
void declare_lora(Options& options, FineTuneOptions& s);     // rank, alpha, dropout and modules of LoRA
void declare_adapter(Options& options, FineTuneOptions& s);  // all options of adapters, with those of LoRA
// Checks these options, records which of them are set, and sets the default learning rate of adapters.
Status check_fine_tune(FineTuneOptions& s, const Options& options, double adapter_learning_rate);

// Loads the model to train. A frozen base is mapped in its files' types, or quantized.
Result<LanguageModel> load_base(FineTuneOptions& s, Device& device, ThreadPool& pool);
// Creates a new adapter or loads the one to continue; nullopt: full fine-tuning.
Result<std::optional<AdapterConfig>> open_adapter(const FineTuneOptions& s, const LoadedModel& loaded,
                                                  Device& device);
// The chat template to train with. If it is not the base model's own, it is stored in saved_template and
// saved with the model.
Result<ChatTemplate> find_template(FineTuneOptions& s, const LanguageModel& language);
// Conversations to train on, with the seed and batch size of `common`; `smoothing`: of the labels, in
// training and validation; pack_length > 0: packed into examples of up to this many tokens, which is said and
// added to the run's identity.
std::unique_ptr<Task> conversation_task(const TrainCommon& common, Model& model, ConversationStores data,
                                        float smoothing, int64_t pack_length, Json& identity);
// The control tokens for tokenizer_config.json; for a GGUF base also its chat template.
Json tokenizer_config(const std::string& base_model, const Tokenizer& tokenizer);

}  // namespace makar
