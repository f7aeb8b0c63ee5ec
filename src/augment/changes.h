// The changes behind augment_text(). Each returns the text itself if there is nothing to change.
#pragma once
#include "augment/augment.h"
#include "augment/words.h"

namespace makar {

// Number of words to change: `rate` of `words`, at least 1.
size_t change_count(double rate, size_t words);
// Whether a word has a meaning of its own: not an article, a preposition, a pronoun or a form of be.
bool is_content_word(const std::string& word);

// --- words (Wei and Zou, 2019) ---
std::string replace_synonyms(const std::string& text, double rate, const AugmentResources& r, TextDraws& d);
std::string replace_neighbors(const std::string& text, double rate, const AugmentResources& r, TextDraws& d);
std::string insert_words(const std::string& text, double rate, const AugmentResources& r, TextDraws& d);
std::string delete_words(const std::string& text, double rate, TextDraws& d);
std::string swap_words(const std::string& text, double rate, TextDraws& d);
Result<std::string> replace_in_context(const std::string& text, double rate, const AugmentResources& r,
                                       TextDraws& d);
std::string replace_entities(const std::string& text, double rate, const AugmentResources& r, TextDraws& d);

// --- characters and sentences ---
std::string add_noise(const std::string& text, double rate, TextDraws& d);
std::string shuffle_sentences(const std::string& text, TextDraws& d);
std::string split_or_merge(const std::string& text, TextDraws& d);

// Replaces the words that the classifier relies on, the most important first, by synonyms or misspellings
// until its answer is wrong; changes at most `rate` of the words (Jin et al., 2020). Unchanged if the
// answer does not become wrong.
std::string fool_classifier(const std::string& text, const std::string& label, double rate,
                            const AugmentResources& r, TextDraws& d);

}  // namespace makar
