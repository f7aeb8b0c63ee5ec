// One vector a text: the hidden states of its tokens pooled, and made a unit vector.
#pragma once
#include "llm/language_model.h"

namespace makar {

enum class Pooling { kMean, kFirst, kLast };

struct EmbedOptions {
  Pooling pooling = Pooling::kMean;
  bool normalize = true;
  int64_t max_tokens = 0;  // longer texts are cut; 0: the model's positions
  int64_t step_tokens = 2048;
};

// What a sentence-transformers folder says of pooling and length, where it is one; mean pooling for other
// encoders, the last token for decoders.
Result<EmbedOptions> embed_options(const std::string& folder, const LanguageModel& language);

// [texts, width]. A text's vector does not depend on the texts beside it.
Result<Tensor> embed(const LanguageModel& language, ThreadPool& pool, const std::vector<std::string>& texts,
                     const EmbedOptions& options);

}  // namespace makar
