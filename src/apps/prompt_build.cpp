// The text of a prompt: its parts, and as many examples as fit.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "apps/prompt.h"
#include "base/rng.h"
#include "metrics/words.h"

namespace makar {
namespace {

std::unordered_set<std::string> words_of(const std::string& text) {
  std::unordered_set<std::string> out;
  std::string word;
  for (const char c : lowered(text) + " ") {
    const bool blank = static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c));
    if (!blank) {
      word += c;
    } else if (!word.empty()) {
      out.insert(std::move(word));
      word.clear();
    }
  }
  return out;
}

// Jaccard similarity of two sets of words.
double similarity(const std::unordered_set<std::string>& a, const std::unordered_set<std::string>& b) {
  size_t common = 0;
  for (const std::string& word : a) common += b.contains(word);
  const size_t all = a.size() + b.size() - common;
  return all == 0 ? 0 : static_cast<double>(common) / static_cast<double>(all);
}

// The indices of the examples, best first.
std::vector<size_t> example_order(const Prompt& prompt, const std::vector<std::string>& texts,
                                  const std::string& input, uint64_t seed) {
  std::vector<size_t> out(texts.size());
  std::iota(out.begin(), out.end(), size_t{0});
  if (prompt.order == ExampleOrder::kFirst) return out;
  std::vector<double> keys;
  const auto input_words = words_of(input);
  for (size_t i = 0; i < texts.size(); ++i)
    keys.push_back(prompt.order == ExampleOrder::kSimilar ? similarity(input_words, words_of(texts[i]))
                                                          : Rng(seed, Purpose::kShuffle).uniform_double(i));
  std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  return out;
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string out;
  for (const std::string& part : parts)
    if (!part.empty()) out += (out.empty() ? "" : separator) + part;
  return out;
}

}  // namespace

double word_overlap(const std::string& a, const std::string& b) {
  return similarity(words_of(a), words_of(b));
}

Result<BuiltPrompt> build_prompt(const Prompt& prompt, const Json& fields, const PromptModel& model,
                                 uint64_t seed) {
  MAKAR_TRY(const std::string instruction, prompt.instruction.text(fields));
  MAKAR_TRY(const std::string context, prompt.context.text(fields));
  MAKAR_TRY(const std::string input, prompt.input.text(fields));
  std::vector<std::string> texts;
  for (const Json& example : prompt.examples) {
    MAKAR_TRY(std::string text, prompt.example.text(example));
    texts.push_back(std::move(text));
  }
  std::vector<size_t> order = example_order(prompt, texts, input, seed);
  if (prompt.shots >= 0 && order.size() > static_cast<size_t>(prompt.shots))
    order.resize(static_cast<size_t>(prompt.shots));
  const auto text_with = [&](size_t count) {
    std::vector<std::string> parts = {instruction, context};
    // The best example last, next to the input.
    std::vector<size_t> chosen(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    if (prompt.order == ExampleOrder::kSimilar) std::reverse(chosen.begin(), chosen.end());
    for (const size_t i : chosen) parts.push_back(texts[i]);
    parts.push_back(input + prompt.indicator);
    return joined(parts, prompt.separator);
  };
  // Binary search for the largest number of examples that fits.
  size_t low = 0, high = order.size();
  MAKAR_TRY(const bool fits_alone, model.fits(text_with(0), prompt.max_tokens));
  if (!fits_alone)
    return error_of(
        Error::Kind::kLimit, prompt.name,
        "the prompt and an answer of {} tokens do not fit the context, even without examples; use "
        "fewer tokens or shorter fields",
        prompt.max_tokens);
  while (low < high) {
    const size_t middle = (low + high + 1) / 2;
    MAKAR_TRY(const bool fits, model.fits(text_with(middle), prompt.max_tokens));
    if (fits)
      low = middle;
    else
      high = middle - 1;
  }
  return BuiltPrompt{text_with(low), static_cast<int64_t>(low)};
}

}  // namespace makar
