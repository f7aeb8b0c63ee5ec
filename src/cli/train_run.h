// Shared by the training commands: options and recipes, signals, the run itself, and progress
// (train_progress.cpp).
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/price_table.h"
#include "base/thread_pool.h"
#include "data/datasets.h"
#include "kernels/cpu_device.h"
#include "train/finish.h"
#include "train/loop.h"
#include "train/recipe.h"

namespace makar {

struct TrainCommon {
  LoopSettings loop;
  std::vector<std::string> datasets, val_datasets;
  double val_set_size = 0.05;
  std::string val_split = "hash";
  std::string device = "cpu";
  int64_t threads = 0;
  bool quiet = false, json = false;
  std::string qat;       // type of quantization-aware training; "": none
  bool lr_find = false;  // run the learning rate range test instead of training
  int64_t lr_find_steps = 100;
  std::string price_file;
  std::optional<PriceTable> prices;
  std::optional<RunLock> lock;  // on output_dir, from parsing to the end of the command
};

void declare_common(Options& options, TrainCommon& common);
// Parses recipe and options; returns an exit code if the command should end here.
std::optional<int> parse_training(Options& options, const std::vector<std::string>& arguments,
                                  TrainCommon& common);

// "--qat" of commands that train language models.
void declare_qat(Options& options, TrainCommon& common);
// The function that rounds the weights of `model` for --qat; adds the setting to `identity`. Null without
// --qat. An error for an adapter: its base does not change.
Result<RoundWeight> open_qat(const TrainCommon& common, Model& model, bool adapter, ThreadPool& pool,
                             Json& identity);

// An error if --bf16 is given: `command` trains in f32 only.
Status check_f32(const TrainCommon& common, const std::string& command);

// Set by the first Ctrl-C or SIGTERM. Ctrl-C after it terminates the process immediately; SIGTERM does not.
const std::atomic<bool>& stop_on_signal();

// Prints steps (a bar on a terminal), validations, samples and messages. `peak`: the machine's peak in
// FLOP/s. `end_line` ends an open progress line; call it before printing anything else.
LoopEvents printed_events(const TrainCommon& common, double peak, std::function<void()>& end_line);
// Measured peak in FLOP/s: the best of a few matrix products.
double measure_peak(Device& device);

// The datasets as given by the options; messages are printed unless --quiet. `common` must outlive the
// result.
DatasetOptions dataset_options(const TrainCommon& common);
void say(const TrainCommon& common, const std::string& text);
// "training 147456 of 26080512 parameters (0.57 %)"
void print_trained_parameters(const TrainCommon& common, const Model& model);

// Input of run_job, which runs the loop, writes the run folder and returns the exit code.
struct TrainJob {
  TrainCommon& common;
  const LoadedModel& loaded;
  Task& task;
  Device& device;
  const AdapterConfig* adapter = nullptr;
  const Tokenizer* tokenizer = nullptr;
  std::string tokenizer_folder, kind, command;
  Json identity;
  std::string base_model = "";  // its generation_config.json is copied to the result; "": a new model
  Json tokenizer_config = Json::object();    // for a tokenizer whose folder has no tokenizer_config.json
  std::string chat_template = "";            // saved with the model; "": the base's own
  std::vector<TrainedModel> others = {};     // trained in addition, by name
  RoundWeight round = nullptr;               // quantization-aware training
  bool merge = false;                        // merge the model's adapter before it is saved
  std::function<Status()> save_others = {};  // after the main model is saved
};
int run_job(const TrainJob& job);

// The command line as typed, quoted for a shell.
std::string command_line(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace makar
