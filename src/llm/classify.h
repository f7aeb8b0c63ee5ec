// Classification of texts and pairs of texts: the head of a sequence classifier and the names of its labels.
#pragma once
#include <string>
#include <vector>

#include "llm/language_model.h"

namespace makar {

// Label names from the config; LABEL_0... if it has none.
std::vector<std::string> label_names(const ModelSpec& spec);
// True if labels are not exclusive (`problem_type` of the config): each has an independent probability.
bool is_multi_label(const ModelSpec& spec);

struct TypedTokens {
  std::vector<int64_t> ids, types;  // types: one per token, or empty
};

// The tokens of a text, truncated to the model's limit. Fails if the model does not classify texts.
Result<TypedTokens> classifier_tokens(const LanguageModel& language, const std::string& text,
                                      WorkBudget* work = nullptr);

// The tokens of pairs that share their first text, which is tokenized once. The longer text of a pair is
// truncated first.
class ClassifierPairs {
 public:
  static Result<ClassifierPairs> of(const LanguageModel& language, const std::string& first,
                                    WorkBudget* work = nullptr);
  Result<TypedTokens> with(const std::string& second) const;

 private:
  ClassifierPairs(const LanguageModel& language, std::string first, Encoding encoded, WorkBudget* work)
      : language_(&language), first_(std::move(first)), encoded_(std::move(encoded)), work_(work) {}
  const LanguageModel* language_;
  std::string first_;
  Encoding encoded_;
  WorkBudget* work_;
};

// The class logits of a text from the hidden states [tokens, width] of its tokens.
std::vector<float> class_logits(const Model& model, Device& device, const Tensor& states,
                                const TypedTokens& text);
// Label probabilities: one sigmoid per label if multi-label or if there is only one label, else a softmax.
std::vector<double> class_probabilities(const std::vector<float>& logits, bool multi_label);

}  // namespace makar
