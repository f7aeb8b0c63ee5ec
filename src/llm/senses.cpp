#include "llm/senses.h"

#include <algorithm>
#include <cmath>

#include "base/lower_ascii.h"
#include "base/nearest.h"
#include "base/quote.h"

namespace makar {
namespace {

bool is_word_byte(char c) {
  const auto b = static_cast<unsigned char>(c);
  return b >= 0x80 || (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z') || b == '_';
}

void scale_to_one(std::vector<float>& vector) {
  double square = 0;
  for (const float v : vector) square += static_cast<double>(v) * static_cast<double>(v);
  const double norm = std::max(std::sqrt(square), 1e-12);
  for (float& v : vector) v = static_cast<float>(static_cast<double>(v) / norm);
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

Result<WordInText> find_word(const std::string& text, const std::string& word) {
  const auto same = [](char a, char b) { return lower_ascii(a) == lower_ascii(b); };
  if (word.empty()) return error_at("word", "is empty");
  for (auto at = text.begin();; ++at) {
    at = std::search(at, text.end(), word.begin(), word.end(), same);
    if (at == text.end()) return error_at("word", "{} is not a word of the text", quote(word));
    const auto begin = static_cast<size_t>(at - text.begin()), end = begin + word.size();
    if ((begin == 0 || !is_word_byte(text[begin - 1])) && (end == text.size() || !is_word_byte(text[end])))
      return WordInText{text, begin, end};
  }
}

Result<WordEncoder> WordEncoder::make(const LanguageModel& language, Device& device, int64_t layers) {
  const ModelSpec& spec = language.spec();
  const StackSpec& stack = spec.encoder ? *spec.encoder : *spec.decoder;
  if (stack.embedding.vocab == 0)
    return error_of(Error::Kind::kUnsupported, "model", "{} reads images, not text", spec.architecture);
  if (layers < 1) return error_at("--layers", "must be 1 or more, got {}", layers);
  return WordEncoder(language, device, std::min(layers, stack.layers()));
}

Result<std::vector<float>> WordEncoder::operator()(const WordInText& word) const {
  const ModelSpec& spec = language_.spec();
  EncodeOptions options;
  options.add_special = true;
  if (spec.max_positions > 0)
    options.truncation =
        Truncation{static_cast<size_t>(spec.max_positions), 0, Truncation::Strategy::kLongestFirst, false};
  MAKAR_TRY(const Encoding encoding, language_.tokenizer().encode(word.text, options));
  std::vector<size_t> rows;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const bool special = i < encoding.special_mask.size() && encoding.special_mask[i] != 0;
    if (!special && encoding.offsets[i].begin < word.end && encoding.offsets[i].end > word.begin)
      rows.push_back(i);
  }
  if (rows.empty())
    return error_at("word", "{} is beyond the {} tokens that the model reads",
                    quote(word.text.substr(word.begin, word.end - word.begin)), encoding.ids.size());
  Context ctx{device_};
  Record record;
  record.hidden = true;
  ForwardContext f{ctx, nullptr, &record};
  Inputs inputs;
  inputs.source.add(std::vector<int64_t>(encoding.ids.begin(), encoding.ids.end()));
  const Model& model = language_.model();
  if (spec.encoder)
    model.encode(f, inputs.source);
  else
    model.hidden(f, inputs);
  std::vector<double> sum;
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const Tensor states =
        record.hidden_states.at(record.hidden_states.size() - 1 - static_cast<size_t>(layer)).host();
    const auto width = static_cast<size_t>(states.dim(1));
    sum.resize(width);
    for (const size_t row : rows)
      for (size_t c = 0; c < width; ++c) sum[c] += static_cast<double>(states.f32()[row * width + c]);
  }
  std::vector<float> out;
  for (const double value : sum)
    out.push_back(
        static_cast<float>(value / static_cast<double>(rows.size()) / static_cast<double>(layers_)));
  scale_to_one(out);
  return out;
}

void SenseInventory::add(const std::string& word, const std::string& sense, std::vector<float> vector) {
  words_[word][sense].push_back(std::move(vector));
}

Result<const SenseInventory::Vectors*> SenseInventory::senses(const std::string& word) const {
  const auto found = words_.find(word);
  if (found != words_.end()) return &found->second;
  std::vector<std::string> known;
  for (const auto& [name, vectors] : words_) known.push_back(name);
  return error_of(Error::Kind::kNotFound, "word", "there are no examples of {}{}", quote(word),
                  did_you_mean(word, known));
}

Result<std::vector<ScoredSense>> SenseInventory::rank(const std::string& word,
                                                      const std::vector<float>& vector) const {
  MAKAR_TRY(const Vectors* const sense_vectors, senses(word));
  std::vector<ScoredSense> out;
  for (const auto& [sense, vectors] : *sense_vectors) {
    double best = -2;
    if (mean_) {
      std::vector<float> mean(vector.size(), 0);
      for (const auto& one : vectors)
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / static_cast<float>(vectors.size());
      scale_to_one(mean);
      best = dot(mean, vector);
    } else {
      for (const auto& one : vectors) best = std::max(best, dot(one, vector));
    }
    out.push_back({sense, best});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const ScoredSense& a, const ScoredSense& b) { return a.cosine > b.cosine; });
  return out;
}

Result<std::string> SenseInventory::most_frequent(const std::string& word) const {
  MAKAR_TRY(const Vectors* const sense_vectors, senses(word));
  const auto best =
      std::max_element(sense_vectors->begin(), sense_vectors->end(),
                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return best->first;
}

}  // namespace makar
