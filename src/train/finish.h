// The end of a run: the Hugging Face folder others open, run.json to repeat it, the report.
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
  std::string tokenizer_folder;  // whose tokenizer_config.json and chat template are taken along; "": none
  std::string kind;              // "pretrained", "fine-tuned"
  const LoopSettings& settings;
  const LoopResult& result;
  Json run;             // command, versions, threads, data: into run.json
  std::string command;  // to repeat it
  std::string sample;
  int64_t eos = -1;
};

Status finish_run(const FinishedRun& run);

// Copies the files a tokenizer consists of, where they are there.
Status copy_tokenizer_files(const std::string& from, const std::string& to);

}  // namespace makar
