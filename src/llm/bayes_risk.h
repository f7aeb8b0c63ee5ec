// Minimum Bayes risk decoding (Kumar and Byrne, 2004; Eikema and Aziz, 2022): of several sampled answers,
// select those with the highest expected similarity to the others.
#pragma once
#include "llm/embed.h"
#include "metrics/overlap.h"

namespace makar {

// The mean similarity of each text, as hypothesis, to all the others.
std::vector<double> expected_overlap(Overlap kind, const std::vector<std::string>& texts);
// The same with the cosine of embeddings; an empty text has similarity 0.
Result<std::vector<double>> expected_cosine(Embedder& embedder, const std::vector<std::string>& texts);

}  // namespace makar
