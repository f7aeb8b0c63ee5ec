// Shared by the training commands: options and recipes, signals, the run itself; progress
// (train_progress.cpp) and datasets (train_data.cpp).
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/thread_pool.h"
#include "data/prepare.h"
#include "kernels/cpu_device.h"
#include "train/causal.h"
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
  bool lr_find = false;  // run the learning rate range test instead of training
  int64_t lr_find_steps = 100;
  std::optional<RunLock> lock;  // on output_dir, from parsing to the end of the command
};

void declare_common(Options& options, TrainCommon& common);
// Parses recipe and options; returns an exit code if the command should end here.
std::optional<int> parse_training(Options& options, const std::vector<std::string>& arguments,
                                  TrainCommon& common);

// Set by the first Ctrl-C or SIGTERM; the second one terminates the process immediately.
const std::atomic<bool>& stop_on_signal();

// Prints steps (a bar on a terminal), validations, samples and messages. `peak`: the machine's peak in
// FLOP/s. `end_line` ends an open progress line; call it before printing anything else.
LoopEvents printed_events(const TrainCommon& common, double peak, std::function<void()>& end_line);
// Measured peak in FLOP/s: the best of a few matrix products.
double measure_peak(Device& device);

// Opens the tokens of the datasets; prepares them under output_dir/data first if needed. `validation`
// receives the validation split.
Status open_sources(const TrainCommon& common, const Tokenizer& tokenizer, int64_t end_of_document,
                    ThreadPool& pool, std::vector<Source>& sources, std::vector<TokenStore>& validation,
                    Json& identity);
// Calls `read` for every dataset, then for those of val_datasets (all of their examples are for validation).
// If the hash selects no validation example, calls `restart` and reads each dataset again with its last
// examples held out.
Status read_datasets(const TrainCommon& common,
                     const std::function<Status(const DatasetSpec&, ValidationSplit&)>& read,
                     const std::function<Status()>& restart);
void say_bad_records(const TrainCommon& common, const BadRecords& bad);
void say_prepared(const TrainCommon& common, const std::string& path, const Prepared& prepared);
void say(const TrainCommon& common, const std::string& text);
// "1 step", "2 steps"
std::string counted(uint64_t count, const char* what);
// "training 147456 of 26080512 parameters (0.57 %)"
void say_trained_parameters(const TrainCommon& common, const Model& model);

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
  Json tokenizer_config = Json::object();  // for a tokenizer whose folder has no tokenizer_config.json
  std::string chat_template = "";          // saved with the model; "": the base's own
};
int run_job(const TrainJob& job);

// The command line as typed, quoted for a shell.
std::string command_line(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace makar
