#include "cli/alignment_plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/xml.h"

namespace makar {
namespace {

std::vector<std::string> token_texts(const Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  std::vector<std::string> out;
  for (const int64_t id : ids) {
    std::string text = tokenizer.decode(std::vector<uint32_t>{static_cast<uint32_t>(id)}, false);
    out.push_back(text.empty() ? tokenizer.token(static_cast<uint32_t>(id)).value_or("?") : std::move(text));
  }
  return out;
}

}  // namespace

std::string svg_heat_map(const std::string& title, const std::vector<std::string>& rows,
                         const std::vector<std::string>& columns, const std::vector<double>& values) {
  // In pixels: the cells, and the margins for the labels. kRight: space for the slanted last label.
  constexpr double kCell = 26, kLeft = 140, kTop = 140, kRight = 70;
  const double width = kLeft + kCell * static_cast<double>(columns.size()) + kRight,
               height = kTop + kCell * static_cast<double>(rows.size()) + 20;
  const double max = values.empty() ? 1 : std::max(1e-12, *std::max_element(values.begin(), values.end()));
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"10\" y=\"20\">{2}</text>\n",
      width, height, xml_escaped(title));
  for (size_t c = 0; c < columns.size(); ++c) {
    const double x = kLeft + kCell * (static_cast<double>(c) + 0.6);
    out += fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-60)\">{}</text>\n", x, kTop - 6,
                       xml_escaped(columns[c]));
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const double y = kTop + kCell * static_cast<double>(r);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8,
                       y + 0.7 * kCell, xml_escaped(rows[r]));
    for (size_t c = 0; c < columns.size(); ++c) {
      const double value = values[r * columns.size() + c];
      const int shade = 255 - static_cast<int>(215 * value / max);  // white to dark blue
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" "
          "fill=\"rgb({},{},255)\"><title>{:.4f}</title>"
          "</rect>\n",
          kLeft + kCell * static_cast<double>(c), y, kCell - 1, kCell - 1, shade, shade, value);
    }
  }
  return out + "</svg>\n";
}

Result<std::string> alignment_plot(const LanguageModel& language, Device& device,
                                   const std::vector<int64_t>& source, const std::vector<int64_t>& answer) {
  constexpr size_t kMaxTokens = 200;  // per axis
  const ModelSpec& spec = language.spec();
  if (!spec.encoder || !spec.decoder)
    return error_of(Error::Kind::kUnsupported, "--alignment", "needs an encoder-decoder model");
  if (answer.empty() || answer.size() > kMaxTokens || source.size() > kMaxTokens)
    return error_of(Error::Kind::kLimit, "--alignment",
                    "draws 1 to {} tokens; the source has {}, the answer {}", kMaxTokens, source.size(),
                    answer.size());
  Inputs inputs;
  inputs.source.add(source);
  std::vector<int64_t> decoder_input = {spec.decoder_start >= 0 ? spec.decoder_start
                                                                : std::max<int64_t>(0, spec.pad)};
  decoder_input.insert(decoder_input.end(), answer.begin(), answer.end() - 1);
  inputs.target.add(decoder_input);
  Context ctx{device};
  Record record;
  record.attention = true;
  ForwardContext f{ctx, nullptr, &record};
  language.model().hidden(f, inputs);
  for (size_t layer = record.cross_attentions.size(); layer-- > 0;) {
    if (record.cross_attentions[layer].empty()) continue;
    const Tensor map = record.cross_attentions[layer][0].host();  // [heads, rows, columns]
    const size_t heads = static_cast<size_t>(map.dim(0)),
                 cells = static_cast<size_t>(map.dim(1) * map.dim(2));
    std::vector<double> mean(cells);
    for (size_t i = 0; i < heads * cells; ++i) mean[i % cells] += map.f32()[i] / static_cast<double>(heads);
    return svg_heat_map("attention to the source", token_texts(language.tokenizer(), answer),
                        token_texts(language.tokenizer(), source), mean);
  }
  return error_of(Error::Kind::kUnsupported, "--alignment", "the model has no cross-attention");
}

}  // namespace makar
