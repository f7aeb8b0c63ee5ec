// Perturbed questions, for robustness and fairness as HELM measures them (Liang et al., 2022). A perturbation
// is a function of the text and the seed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

// typos: two letters exchanged, or one dropped, doubled or replaced by a neighbouring key, in one of eight
//   words. Words of fewer than four letters and labels ("Question:") are unchanged.
// lowercase: all ASCII letters.
// contractions: "do not" and "don't", both ways.
// synonyms: common words replaced by one of the same meaning. Together with contractions: a paraphrase.
// gender: words for women and men exchanged. names: first names exchanged between groups.
std::vector<std::string> perturbations();
// The perturbations that keep the meaning, and those that change only the people mentioned.
std::vector<std::string> robustness_perturbations();
std::vector<std::string> fairness_perturbations();
// Whether the choices and targets of a question change too: true for gender and names.
bool perturbs_answers(const std::string& kind);

Status check_perturbation(const std::string& kind);
// `kind` is one of perturbations(), or empty: no change.
std::string perturb(const std::string& text, const std::string& kind, uint64_t seed);

// Words for women and men in a text (as `gender` exchanges them), for representation in answers.
struct GenderWords {
  int64_t female = 0, male = 0;
};
GenderWords count_gender_words(const std::string& text);

}  // namespace makar
