// A loaded model: weights, tokenizer, embedding settings, and the thread that steps its engine.
#pragma once
#include "base/lost_pages.h"
#include "llm/embed.h"
#include "serve/engine_loop.h"
#include "serve/prepare.h"

namespace makar {

struct ActiveModel {
  ActiveModel(ServedModel model, EmbedOptions embedding, Device& device, EngineOptions options, Turns& turns)
      : served(std::move(model)), embed(embedding), loop(served.language.model(), device, options, turns) {}

  // Whether a model file was truncated while mapped: results computed from it are wrong.
  bool files_lost() const { return pages_lost(first_map, end_map); }
  Error files_lost_error() const {
    return error_of(Error::Kind::kIo, "model",
                    "the files of {} changed while the model was in use; the next request loads it again",
                    served.name);
  }

  const ServedModel served;
  const EmbedOptions embed;
  EngineLoop loop;
  uint64_t first_map = 0, end_map = 0;  // the mappings of its files (base/lost_pages.h)
};

// A request's reference to a model; the model is not unloaded while a lease exists.
struct ModelLease {
  std::shared_ptr<ActiveModel> active;
  std::string name;      // the name in the request
  int32_t adapter = -1;  // index of the model's adapter; -1: none

  const ServedModel& served() const { return active->served; }
  const LanguageModel& language() const { return active->served.language; }
  EngineLoop& loop() const { return active->loop; }
};

}  // namespace makar
