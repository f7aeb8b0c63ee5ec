// Classes of texts and of pairs of texts: the head of a sequence classifier, its labels by their names.
#pragma once
#include <string>
#include <vector>

#include "llm/language_model.h"

namespace makar {

// The names of a classifier's labels, as its config gives them; LABEL_0... where it does not.
std::vector<std::string> label_names(const ModelSpec& spec);
// Several labels may hold at once (`problem_type` of the config), each with a probability of its own.
bool is_multi_label(const ModelSpec& spec);

struct TypedTokens {
  std::vector<int64_t> ids, types;  // types: of each token, or empty
};

// The tokens of a text, or of a pair, cut to what the model reads, the longer one first. Errors:
// a model that does not classify texts.
Result<TypedTokens> classifier_tokens(const LanguageModel& language, const std::string& text,
                                      const std::string* second = nullptr);
// The logits of a text, from the states [tokens, width] of its tokens.
std::vector<float> class_logits(const Model& model, ThreadPool& pool, const Tensor& states,
                                const TypedTokens& text);
// Probabilities of the labels: a sigmoid each where several may hold or there is one alone, else a softmax.
std::vector<double> class_probabilities(const std::vector<float>& logits, bool multi_label);

}  // namespace makar
