// A model in use: its weights and texts, how it embeds, and the thread that steps its engine.
#pragma once
#include "llm/embed.h"
#include "serve/engine_loop.h"
#include "serve/prepare.h"

namespace makar {

struct ActiveModel {
  ActiveModel(ServedModel model, EmbedOptions embedding, ThreadPool& pool, EngineOptions options,
              Turns& turns)
      : served(std::move(model)), embed(embedding), loop(served.language.model(), pool, options, turns) {}

  const ServedModel served;
  const EmbedOptions embed;
  EngineLoop loop;
};

// A model that a request holds on to; it is not put away meanwhile.
struct ModelLease {
  std::shared_ptr<ActiveModel> active;
  std::string name;      // as the client calls it
  int32_t adapter = -1;  // of those the model offers; -1: none

  const ServedModel& served() const { return active->served; }
  const LanguageModel& language() const { return active->served.language; }
  EngineLoop& loop() const { return active->loop; }
};

}  // namespace makar
