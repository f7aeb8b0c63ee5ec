// Settings of a training run that all objectives share, with the names of Axolotl and Hugging Face.
#pragma once
#include <string>

#include "base/json.h"
#include "base/options.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace makar {

struct LoopSettings {
  std::string output_dir = "runs/train";
  int64_t seed = 42;
  int64_t micro_batch_size = 8, gradient_accumulation_steps = 1;
  double num_epochs = 1;
  int64_t max_steps = 0;  // 0: num_epochs decides
  double learning_rate = 3e-4, min_lr = 0;
  std::string lr_scheduler = "cosine";
  int64_t warmup_steps = 0;
  double warmup_ratio = 0;
  int64_t decay_steps = 0;  // of warmup_stable_decay; 0: decay_ratio decides
  double decay_ratio = 0.2;
  std::string decay_type = "cosine";
  double weight_decay = 0.0;
  std::string optimizer = "adamw";
  double beta1 = -1, beta2 = -1, eps = -1;  // negative: the optimiser's default
  double max_grad_norm = 1.0;
  bool gradient_checkpointing = false;
  bool bf16 = false;  // mixed precision
  bool no_dropout = false;
  double label_smoothing = 0;
  bool keep_zeros = false;  // weights of matrices that are 0 before training stay 0
  double ema = 0;           // decay of the averaged weights; 0: no averaging
  int64_t eval_steps = 0, save_steps = 0, save_total_limit = 2, logging_steps = 10, sample_steps = 0;
  bool save_in_background = false;
  int64_t early_stopping_patience = 0;
  bool overwrite = false;
};

// The type of activations during training and validation.
inline DType activations_of(const LoopSettings& s) { return s.bf16 ? DType::kBF16 : DType::kF32; }

// Declares the options for command line, recipe and environment.
void declare_loop(Options& options, LoopSettings& settings);
Status check_loop(const LoopSettings& settings);

Result<Schedule> schedule_of(const LoopSettings& settings, int64_t total_steps);
// The optimiser's options; Muon updates the hidden matrices of `model`.
OptimizerOptions optimizer_of(const LoopSettings& settings, Model& model);
// max_steps, or num_epochs of `batches_per_epoch` micro-batches.
int64_t total_steps(const LoopSettings& settings, uint64_t batches_per_epoch);
// The settings that must match for a run to resume.
Json to_json(const LoopSettings& settings);

}  // namespace makar
