// The end of a run: the model as a Hugging Face folder, the report, and run.json.
#pragma once
#include <string>

#include "models/adapter.h"
#include "text/tokenizer.h"
#include "train/loop.h"
#include "train/run_folder.h"

namespace makar {

struct FinishedRun {
  const LoadedModel& loaded;
  const AdapterConfig* adapter = nullptr;  // saved instead of the model
  const Tokenizer* tokenizer = nullptr;
  std::string tokenizer_folder;  // its tokenizer_config.json and chat template are copied; "": none
  std::string kind;              // "pretrained", "fine-tuned"
  const LoopSettings& settings;
  const LoopResult& result;
  Json run;             // command, versions, threads, data; written to run.json
  std::string command;  // the command line that repeats the run
  std::string sample;
  std::string base_model;     // its generation_config.json is copied; "": a new model
  Json tokenizer_config;      // used if tokenizer_folder has none
  std::string chat_template;  // the training template, if the base has a different one or none; "": none
  std::string cost;           // money and energy of this run; "": no prices were given
};

Status finish_run(const FinishedRun& run);

// Copies the tokenizer files that `from` has, and removes others of `to`; `from` may be empty.
Status copy_tokenizer_files(const std::string& from, const std::string& to);

}  // namespace makar
