// Minimum Bayes risk decoding (Kumar and Byrne, 2004; Eikema and Aziz, 2022): of answers drawn from a model,
// those with the highest expected likeness to the others.
#pragma once
#include "llm/embed.h"
#include "metrics/overlap.h"

namespace makar {

// The mean likeness of each text, as the hypothesis, to all the others.
std::vector<double> expected_overlap(Overlap kind, const std::vector<std::string>& texts);
// The same by the cosine of their embeddings; an empty text is like nothing.
Result<std::vector<double>> expected_cosine(Embedder& embedder, const std::vector<std::string>& texts);

}  // namespace makar
