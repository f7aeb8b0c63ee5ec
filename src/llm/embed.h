// One vector a text: the hidden states of its tokens pooled, and made a unit vector.
#pragma once
#include "infer/engine.h"
#include "llm/language_model.h"

namespace makar {

enum class Pooling { kMean, kFirst, kLast };

struct EmbedOptions {
  Pooling pooling = Pooling::kMean;
  bool normalize = true;
  int64_t max_tokens = 0;  // longer texts are cut; 0: the model's positions
};

// What a sentence-transformers folder says of pooling and length, where it is one; mean pooling for other
// encoders, the last token for decoders.
Result<EmbedOptions> embed_options(const std::string& folder, const LanguageModel& language);

// The tokens of a text, cut to what the model and the options allow. Errors: a model that has no vectors of
// texts, a text without tokens.
Result<std::vector<int64_t>> embed_tokens(const LanguageModel& language, const std::string& text,
                                          const EmbedOptions& options);
// The states [tokens, width] of a text as one vector.
std::vector<float> pool_states(const Tensor& states, const EmbedOptions& options);

// [texts, width]. Every text is a job of its own: a vector does not depend on what runs beside it.
Result<Tensor> embed(Engine& engine, const LanguageModel& language, const std::vector<std::string>& texts,
                     const EmbedOptions& options);

// A model opened for embedding by itself, as its folder says.
class Embedder {
 public:
  static Result<std::shared_ptr<Embedder>> open(const std::string& path, ThreadPool& pool,
                                                const MemoryBudget& budget = {});
  Result<Tensor> operator()(const std::vector<std::string>& texts) {
    return embed(engine_, language_, texts, options_);
  }
  const ModelSpec& spec() const { return language_.spec(); }
  static EngineOptions engine_options();

 private:
  Embedder(LanguageModel language, EmbedOptions options, ThreadPool& pool)
      : language_(std::move(language)),
        options_(options),
        engine_(language_.model(), pool, engine_options()) {}
  LanguageModel language_;
  EmbedOptions options_;
  Engine engine_;
};

}  // namespace makar
