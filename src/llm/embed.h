// One embedding per text: the hidden states of its tokens, pooled and normalised to length 1.
#pragma once
#include "infer/engine.h"
#include "llm/language_model.h"

namespace makar {

enum class Pooling { kMean, kFirst, kLast };

struct EmbedOptions {
  Pooling pooling = Pooling::kMean;
  bool normalize = true;
  int64_t max_tokens = 0;  // longer texts are truncated; 0: the model's limit
};

// Pooling and length limit from a sentence-transformers folder. Defaults: mean pooling for encoders, last
// token for decoders.
Result<EmbedOptions> embed_options(const std::string& folder, const LanguageModel& language);

// The tokens of a text, truncated to the limits of the model and the options. Fails if the model has no text
// embeddings or the text has no tokens.
Result<std::vector<int64_t>> embed_tokens(const LanguageModel& language, const std::string& text,
                                          const EmbedOptions& options, WorkBudget* work = nullptr);
// Pools the hidden states [tokens, width] of a text into one vector.
std::vector<float> pool_states(const Tensor& states, const EmbedOptions& options);

// The vector of a text from its states: pooled, or projected by a model that compares texts with images.
std::vector<float> text_vector(const Model& model, Device& device, const Tensor& states,
                               const std::vector<int64_t>& tokens, const EmbedOptions& options);

// [texts, width]. Each text is a separate job: its embedding does not depend on other texts in the batch.
Result<Tensor> embed(Engine& engine, const LanguageModel& language, const std::vector<std::string>& texts,
                     const EmbedOptions& options);

// A model opened only for embedding, with the options from its folder.
class Embedder {
 public:
  static Result<std::shared_ptr<Embedder>> open(const std::string& path, Device& device,
                                                const MemoryBudget& budget = {});
  Result<Tensor> operator()(const std::vector<std::string>& texts) {
    return embed(engine_, language_, texts, options_);
  }
  // Tokens that embedding these texts reads.
  Result<int64_t> count_tokens(const std::vector<std::string>& texts) const;
  const ModelSpec& spec() const { return language_.spec(); }
  static EngineOptions engine_options();

 private:
  Embedder(LanguageModel language, EmbedOptions options, Device& device)
      : language_(std::move(language)),
        options_(options),
        engine_(language_.model(), device, engine_options()) {}
  LanguageModel language_;
  EmbedOptions options_;
  Engine engine_;
};

}  // namespace makar
