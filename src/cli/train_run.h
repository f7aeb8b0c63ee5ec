// What the training commands share: options with recipes, threads and signals, the step line, the way from
// data to token stores.
#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/thread_pool.h"
#include "data/prepare.h"
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
  int64_t threads = 0;
  bool quiet = false, json = false;
  bool lr_find = false;  // instead of a run: which learning rate
  int64_t lr_find_steps = 100;
};

void declare_common(Options& options, TrainCommon& common);
// Recipe and options; an exit code when the command should end here.
std::optional<int> parse_training(Options& options, const std::vector<std::string>& arguments,
                                  TrainCommon& common);

// Set by the first Ctrl-C or SIGTERM; the second ends the program at once.
const std::atomic<bool>& stop_on_signal();

// Prints the step line of the conventions (a bar on a terminal), validations, samples and what else is to be
// said. `peak` is the machine's arithmetic in flop/s; it lives until the loop ends.
LoopEvents printed_events(const TrainCommon& common, double peak);
// The best of a few matrix products, in flop/s.
double measure_peak(ThreadPool& pool);

// Tokens of the datasets, prepared under output_dir/data where they are not yet. `validation` gets the other
// part.
Status open_sources(const TrainCommon& common, const Tokenizer& tokenizer, int64_t end_of_document,
                    ThreadPool& pool, std::vector<Source>& sources, std::vector<TokenStore>& validation,
                    Json& identity);
void say_prepared(const TrainCommon& common, const std::string& path, const Prepared& prepared);
void say(const TrainCommon& common, const std::string& text);

// Runs the loop and writes the folder; the exit code. `finished` is filled in but for the result.
struct TrainJob {
  TrainCommon& common;
  const LoadedModel& loaded;
  Task& task;
  ThreadPool& pool;
  const AdapterConfig* adapter = nullptr;
  const Tokenizer* tokenizer = nullptr;
  std::string tokenizer_folder, kind, command;
  Json identity;
  int64_t eos = -1;
};
int run_job(const TrainJob& job);

// The command as it was typed, quoted for a shell.
std::string command_line(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace makar
