#include "nets/numbers.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "data/idx.h"
#include "data/schema.h"
#include "kernels/device.h"
#include "lexical/corpus.h"

namespace makar {

Tensor select_rows(Device& device, const std::vector<float>& values, size_t width,
                   std::span<const size_t> indices) {
  std::vector<float> out;
  out.reserve(indices.size() * width);
  for (const size_t i : indices)
    out.insert(out.end(), values.begin() + static_cast<std::ptrdiff_t>(i * width),
               values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
  return Tensor::from({static_cast<int64_t>(indices.size()), static_cast<int64_t>(width)},
                      std::span<const float>(out))
      .to(device.memory());
}

Tensor Numbers::rows(Device& device, std::span<const size_t> examples) const {
  return select_rows(device, values, width, examples);
}

Result<Numbers> read_images(const std::string& path, size_t limit) {
  MAKAR_TRY(const auto stream, ByteStream::open(path));
  MAKAR_TRY(const IdxArray images, read_idx(*stream));
  if (images.dims.size() != 3)
    return error_at(path, "expected an array [images, height, width], found {} dimensions",
                    images.dims.size());
  Numbers out;
  out.count = static_cast<size_t>(images.dims[0]), out.height = images.dims[1], out.columns = images.dims[2];
  if (limit > 0) out.count = std::min(out.count, limit);
  out.width = static_cast<size_t>(out.height * out.columns);
  out.values.resize(out.count * out.width);
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = static_cast<float>(images.bytes[i]) / 255.0f;
  return out;
}

Result<Numbers> read_bags(const std::vector<DataPath>& paths, size_t max_words, size_t limit,
                          const std::vector<std::string>& words) {
  constexpr size_t kMaxWords = size_t{4} << 20, kMaxValues = size_t{1} << 31;
  Numbers out;
  std::vector<std::vector<std::string>> texts;
  std::map<std::string, size_t> counts;
  WordSplitter splitter({"words", true});
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  for (DataRecord record; limit == 0 || texts.size() < limit;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const auto add = [&](std::string_view text) {
      std::vector<std::string>& text_words = texts.emplace_back();
      for (const std::string_view word : splitter.split(text)) text_words.emplace_back(word);
      std::sort(text_words.begin(), text_words.end());
      text_words.erase(std::unique(text_words.begin(), text_words.end()), text_words.end());
      for (const std::string& word : text_words) ++counts[word];
    };
    const std::string text = record_text(record.value);
    if (format_of(record.file).value_or(RecordFormat::kText) == RecordFormat::kText) {
      // Plain text: each line is an example.
      for (size_t at = 0; at < text.size() && (limit == 0 || texts.size() < limit);) {
        const size_t end = std::min(text.find('\n', at), text.size());
        if (end > at) add(std::string_view(text).substr(at, end - at));
        at = end + 1;
      }
    } else {
      add(text);
    }
    if (counts.size() > kMaxWords)
      return error_of(Error::Kind::kLimit, record.place(), "more than {} different words", kMaxWords);
    if (const Json* label = label_field(record.value))
      out.labels.push_back(label->is_string() ? label->get<std::string>() : label->dump());
  }
  if (texts.empty()) return error_at(paths.empty() ? "data" : paths[0].path, "has no texts");
  if (out.labels.size() != texts.size()) out.labels.clear();
  out.words = words;
  if (words.empty()) {
    std::vector<std::pair<std::string, size_t>> order(counts.begin(), counts.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    for (size_t i = 0; i < std::min(max_words, order.size()); ++i) out.words.push_back(order[i].first);
  }
  std::unordered_map<std::string, size_t> column_of;
  for (size_t i = 0; i < out.words.size(); ++i) column_of.emplace(out.words[i], i);
  out.count = texts.size(), out.width = out.words.size();
  if (out.count > kMaxValues / std::max<size_t>(1, out.width))
    return error_of(Error::Kind::kLimit, "data", "{} texts of {} words are too many; use `limit` or `words`",
                    out.count, out.width);
  out.values.assign(out.count * out.width, 0.0f);
  for (size_t t = 0; t < texts.size(); ++t)
    for (const std::string& word : texts[t])
      if (const auto it = column_of.find(word); it != column_of.end())
        out.values[t * out.width + it->second] = 1.0f;
  return out;
}

}  // namespace makar
