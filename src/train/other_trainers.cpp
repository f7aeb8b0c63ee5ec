#include "train/other_trainers.h"

#include <string_view>

namespace makar {
namespace {

struct Row {
  std::string_view key;  // a trailing '*' matches any key with this prefix
  const char* hint;
};

constexpr Row kRows[] = {
    {"model_name_or_path", "in makar: base_model"},
    {"base_model_config", "not needed: the base model's config.json is used"},
    {"model_type", "not needed: the base model's config.json is used"},
    {"tokenizer_type", "not needed: the base model's tokenizer is used"},
    {"tokenizer_config", "not needed: the base model's tokenizer is used"},
    {"trust_remote_code", "not needed: no code is loaded from models"},
    {"cutoff_len", "in makar: sequence_len"},
    {"max_seq_length", "in makar: sequence_len"},
    {"max_seq_len", "in makar: sequence_len"},
    {"model_max_length", "in makar: sequence_len"},
    {"dataset_dir", "in makar: datasets, with paths"},
    {"train_file", "in makar: datasets"},
    {"dataset_path", "in makar: datasets"},
    {"validation_file", "in makar: val_datasets"},
    {"test_datasets", "in makar: val_datasets"},
    {"val_size", "in makar: val_set_size"},
    {"template", "in makar: chat_template, with a file"},
    {"finetuning_type", "in makar: adapter (lora, qlora), or none for all weights"},
    {"lora_rank", "in makar: lora_r"},
    {"lora_target", "in makar: lora_target_modules"},
    {"lora_target_linear", "in makar: lora_target_modules: all-linear (the default)"},
    {"lora_fan_in_fan_out", "not needed: derived from the base model"},
    {"load_in_4bit", "in makar: adapter: qlora"},
    {"load_in_8bit", "in makar: adapter: qlora and quantize_base: q8_0"},
    {"quantization_bit", "in makar: adapter: qlora and quantize_base: q4_k or q8_0"},
    {"per_device_eval_batch_size", "not needed: validation uses micro_batch_size"},
    {"eval_batch_size", "not needed: validation uses micro_batch_size"},
    {"eval_strategy", "in makar: eval_steps"},
    {"evaluation_strategy", "in makar: eval_steps"},
    {"evals_per_epoch", "in makar: eval_steps"},
    {"save_strategy", "in makar: save_steps"},
    {"saves_per_epoch", "in makar: save_steps"},
    {"logging_strategy", "in makar: logging_steps"},
    {"cosine_min_lr_ratio", "in makar: min_lr, a rate and not a ratio"},
    {"lr_scheduler_kwargs", "in makar: min_lr, decay_steps, decay_ratio, decay_type"},
    {"resume_from_checkpoint", "not needed: the same command resumes"},
    {"auto_resume_from_checkpoints", "not needed: the same command resumes"},
    {"dataset_prepared_path", "not needed: prepared data is kept under output_dir/data"},
    {"dataset_processes", "in makar: threads"},
    {"dataset_num_proc", "in makar: threads"},
    {"preprocessing_num_workers", "in makar: threads"},
    {"dataloader_num_workers", "in makar: threads"},
    {"pad_to_sequence_len", "not needed: batches have no padding"},
    {"group_by_length", "not needed: batches have no padding"},
    {"packing", "in makar: sample_packing"},
    {"eval_sample_packing", "not needed: validation is by conversation"},
    {"fp16", "in makar: bf16"},
    {"tf32", "in makar: bf16"},
    {"bfloat16", "in makar: bf16"},
    {"float16", "in makar: bf16"},
    {"flash_attention", "not needed: attention never stores its matrix"},
    {"flash_attn", "not needed: attention never stores its matrix"},
    {"xformers_attention", "not needed: attention never stores its matrix"},
    {"sdp_attention", "not needed: attention never stores its matrix"},
    {"report_to", "not needed: log.jsonl and TensorBoard files are always written"},
    {"use_tensorboard", "not needed: log.jsonl and TensorBoard files are always written"},
    {"plot_loss", "not needed: report.md has the curves"},
    {"wandb_*", "not supported: log.jsonl and TensorBoard files are written"},
    {"mlflow_*", "not supported: log.jsonl and TensorBoard files are written"},
    {"deepspeed", "not supported: training runs in one process"},
    {"fsdp", "not supported: training runs in one process"},
    {"fsdp_config", "not supported: training runs in one process"},
    {"ddp_*", "not supported: training runs in one process"},
    {"local_rank", "not supported: training runs in one process"},
    {"special_tokens", "not supported: the tokenizer of the base model is used"},
    {"tokens", "not supported: the tokenizer of the base model is used"},
    {"push_to_hub", "not supported"},
    {"hub_*", "not supported"},
    {"neftune_noise_alpha", "not supported"},
    {"loraplus_*", "not supported"},
    {"do_train", "not needed"},
    {"do_eval", "not needed: eval_steps and val_set_size decide"},
    {"stage", "not needed: the command decides (pretrain, sft, dpo, classify train)"},
    {"strict", "not needed: unknown keys are always refused"},
    {"debug", "not supported"},
    {"overwrite_cache", "not needed: data is prepared again when it changes"},
};

}  // namespace

std::string equivalent_setting(const std::string& key) {
  for (const Row& row : kRows) {
    const bool prefix = row.key.ends_with('*');
    if (prefix ? key.starts_with(row.key.substr(0, row.key.size() - 1)) : key == row.key) return row.hint;
  }
  return "";
}

}  // namespace makar
