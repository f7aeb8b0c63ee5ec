#include "cli/inspect_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/utf8.h"
#include "kernels/cpu_device.h"
#include "llm/language_model.h"

namespace makar {
namespace {

constexpr size_t kMaxColumns = 64;  // tokens of the text, one terminal column each
constexpr size_t kMaxLabel = 12;    // characters of a token's label
constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};

// The text of a token without line breaks, at most kMaxLabel characters.
std::string label_of(const Tokenizer& tokenizer, int64_t id) {
  const std::string text = tokenizer.decode(std::vector<uint32_t>{static_cast<uint32_t>(id)}, false);
  std::string out;
  size_t length = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c & 0xC0) != 0x80 && ++length > kMaxLabel) break;
    if (c == '\n')
      out += "\\n", ++length;
    else
      out += c < 0x20 || c == 0x7F ? '?' : text[i];
  }
  return is_valid_utf8(out) ? out : "?";
}

// The weights of one head over the tokens: [rows, keys].
struct HeadMap {
  int64_t layer = 0, head = 0;
  const float* weights = nullptr;
  size_t size = 0;  // rows and keys
  float at(size_t row, size_t key) const { return weights[row * size + key]; }
  // The key, other than itself and the first one, that the last token attends to most.
  size_t strongest() const {
    size_t best = 0;
    for (size_t k = 1; k + 1 < size; ++k)
      if (best == 0 || at(size - 1, k) > at(size - 1, best)) best = k;
    return best;
  }
};

void print_map(const HeadMap& map, const std::vector<std::string>& labels) {
  size_t width = 0;
  for (const std::string& label : labels) width = std::max(width, count_code_points(label));
  for (size_t r = 0; r < map.size; ++r) {
    std::string line(width - count_code_points(labels[r]), ' ');
    line += labels[r] + " |";
    for (size_t k = 0; k <= r; ++k) {
      const auto shade =
          static_cast<size_t>(std::lround(4 * std::sqrt(std::clamp(map.at(r, k), 0.0f, 1.0f))));
      line += kShades[shade];
    }
    fmt::print("{}\n", line);
  }
}

}  // namespace

Status print_attention(const std::string& path, const AttentionView& view, bool json) {
  CpuDevice device(static_cast<int>(view.threads));
  MAKAR_TRY(const LanguageModel language, LanguageModel::open(path, device));
  const ModelSpec& spec = language.spec();
  if (!spec.decoder || spec.encoder || !language.has_tokenizer())
    return error_of(Error::Kind::kUnsupported, "--attention", "needs a decoder-only model with a tokenizer");
  MAKAR_TRY(const std::vector<int64_t> ids, language.encode(view.text));
  if (ids.size() < 3 || ids.size() > kMaxColumns)
    return error_of(Error::Kind::kLimit, "--attention", "shows texts of 3 to {} tokens, this one has {}",
                    kMaxColumns, ids.size());
  Inputs inputs;
  inputs.source.add(ids);
  Context ctx{device};
  Record record;
  record.attention = true;
  ForwardContext f{ctx, nullptr, &record};
  language.model().hidden(f, inputs);

  std::vector<Tensor> layers;  // own the weights that the maps point to
  std::vector<HeadMap> maps;
  for (size_t layer = 0; layer < record.attentions.size(); ++layer) {
    if (record.attentions[layer].empty()) continue;
    layers.push_back(record.attentions[layer][0].host());  // [heads, rows, keys]
    const Tensor& weights = layers.back();
    if (weights.dim(1) != static_cast<int64_t>(ids.size()) || weights.dim(2) != weights.dim(1)) continue;
    for (int64_t head = 0; head < weights.dim(0); ++head)
      maps.push_back({static_cast<int64_t>(layer), head,
                      weights.f32() + head * weights.dim(1) * weights.dim(2), ids.size()});
  }
  if (maps.empty()) return error_of(Error::Kind::kUnsupported, "--attention", "the model has no attention");
  const HeadMap* selected = nullptr;
  for (const HeadMap& map : maps) {
    if ((view.layer >= 0 && map.layer != view.layer) || (view.head >= 0 && map.head != view.head)) continue;
    if (!selected ||
        map.at(map.size - 1, map.strongest()) > selected->at(map.size - 1, selected->strongest()))
      selected = &map;
  }
  if (!selected)
    return error_of(Error::Kind::kNotFound, "--attention",
                    "the model has no {} in {}; it has {} layers with {} heads",
                    view.head >= 0 ? fmt::format("head {}", view.head) : "head",
                    view.layer >= 0 ? fmt::format("layer {}", view.layer) : "any layer",
                    spec.decoder->layers(), spec.decoder->first().attention.heads);
  std::vector<std::string> labels;
  for (const int64_t id : ids) labels.push_back(label_of(language.tokenizer(), id));
  if (json) {
    Json rows = Json::array();
    for (size_t r = 0; r < selected->size; ++r) {
      Json row = Json::array();
      for (size_t k = 0; k < selected->size; ++k) row.push_back(selected->at(r, k));
      rows.push_back(std::move(row));
    }
    fmt::print(
        "{}\n",
        dump(
            {{"layer", selected->layer}, {"head", selected->head}, {"tokens", labels}, {"attention", rows}}));
    return Done{};
  }
  fmt::print("attention of layer {}, head {}: rows attend to columns; blank is 0, full is 1\n\n",
             selected->layer, selected->head);
  print_map(*selected, labels);
  const size_t best = selected->strongest();
  fmt::print("\nstrongest: '{}' attends to '{}' (token {}) with weight {:.2f}\n", labels.back(), labels[best],
             best, selected->at(selected->size - 1, best));
  return Done{};
}

}  // namespace makar
