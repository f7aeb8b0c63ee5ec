// The models of `makar serve`: which there are, and how one is opened within the memory of all.
#pragma once
#include "cli/model_options.h"
#include "serve/model_shelf.h"

namespace makar {

struct ServedModelOptions {
  ModelOptions model;  // the first one
  EngineFlags engine;
  std::string alias, folder;         // --alias, --models-dir
  std::vector<std::string> others;   // --add-model [NAME=]PATH
  std::vector<std::string> modules;  // --lora-modules NAME=FOLDER
  int64_t most = 4, parallel = 64;

  void declare(Options& options);
  // The first model with its adapters, then the others. Errors: names that are taken or empty, paths that are
  // not there.
  Result<std::vector<ShelfEntry>> entries() const;
  // Opens one; `pool` and `turns` are those of all engines. The options outlive it.
  ModelShelf::Opener opener(ThreadPool& pool, Turns& turns, bool alone) const;
};

}  // namespace makar
