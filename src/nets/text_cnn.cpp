#include "nets/text_cnn.h"

#include <algorithm>
#include <set>

#include "base/rng.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

// The maximum of each group of consecutive rows, by halving the groups. [groups, width]
Tensor segment_max(Context& ctx, Tensor x, std::vector<int64_t> lengths) {
  while (std::any_of(lengths.begin(), lengths.end(), [](int64_t n) { return n > 1; })) {
    std::vector<int64_t> left, right;
    int64_t start = 0;
    for (int64_t& n : lengths) {
      const int64_t half = (n + 1) / 2;
      for (int64_t i = 0; i < half; ++i) {
        left.push_back(start + 2 * i);
        right.push_back(start + std::min(2 * i + 1, n - 1));
      }
      start += n, n = half;
    }
    x = ops::maximum(ctx, ops::gather_rows(ctx, x, left), ops::gather_rows(ctx, x, right));
  }
  return x;
}

// The mean of the rows of each text. [texts, width]
Tensor text_means(Context& ctx, const Tensor& rows, const std::vector<std::vector<int64_t>>& texts) {
  std::vector<int64_t> starts = {0};
  std::vector<float> shares;
  for (const auto& t : texts) {
    starts.push_back(starts.back() + static_cast<int64_t>(t.size()));
    shares.push_back(1.0f / static_cast<float>(t.size()));
  }
  const Tensor share = Tensor::from({static_cast<int64_t>(shares.size())}, std::span<const float>(shares));
  return ops::scale_rows(ctx, ops::segment_sum(ctx, rows, starts), share.to(ctx.device.memory()));
}

}  // namespace

void TextCnn::declare() {
  table_ = set_.add("words.weight", {words_.size(), width_});
  for (const int64_t size : windows_)
    convolutions_.emplace_back(set_, fmt::format("filters.{}", size), size * width_, filters_, true);
  const int64_t features = windows_.empty() ? width_ : filters_ * static_cast<int64_t>(windows_.size());
  classifier_ = Linear(set_, "classifier", features, static_cast<int64_t>(labels_.size()), true);
}

std::vector<int64_t> TextCnn::ids_of(const std::string& text) const {
  std::vector<int64_t> ids = words_.ids(text);
  if (static_cast<int64_t>(ids.size()) > max_text_words_) ids.resize(static_cast<size_t>(max_text_words_));
  // At least one window of each size.
  const auto min_length =
      windows_.empty() ? 1 : static_cast<size_t>(*std::max_element(windows_.begin(), windows_.end()));
  while (ids.size() < min_length) ids.push_back(WordVocabulary::kPad);
  return ids;
}

Tensor TextCnn::forward(Context& ctx, const std::vector<std::vector<int64_t>>& texts) {
  std::vector<int64_t> ids;
  for (const auto& t : texts) ids.insert(ids.end(), t.begin(), t.end());
  const Tensor rows = ops::embedding(ctx, table_->value, ids, WordVocabulary::kPad);
  std::vector<Tensor> features;
  if (windows_.empty()) features.push_back(text_means(ctx, rows, texts));
  for (size_t w = 0; w < windows_.size(); ++w) {
    const int64_t size = windows_[w];
    std::vector<Tensor> parts;
    std::vector<int64_t> lengths;
    for (int64_t offset = 0; offset < size; ++offset) {
      std::vector<int64_t> index;
      int64_t start = 0;
      for (const auto& t : texts) {
        const int64_t windows = static_cast<int64_t>(t.size()) - size + 1;
        for (int64_t i = 0; i < windows; ++i) index.push_back(start + i + offset);
        if (offset == 0) lengths.push_back(windows);
        start += static_cast<int64_t>(t.size());
      }
      parts.push_back(ops::gather_rows(ctx, rows, index));
    }
    const Tensor joined = parts.size() == 1 ? parts[0] : ops::concat(ctx, parts, -1);
    const Tensor activations = ops::activate(ctx, convolutions_[w](ctx, joined), ops::Activation::kRelu);
    features.push_back(segment_max(ctx, activations, lengths));
  }
  const Tensor joined = features.size() == 1 ? features[0] : ops::concat(ctx, features, -1);
  return classifier_(ctx, ops::dropout(ctx, joined, dropout_));
}

Result<TextCnn> TextCnn::train(const TextsWithLabels& data, const TextCnnOptions& o, Device& device,
                               const std::function<void(const EpochResult&)>& each) {
  MAKAR_RETURN_IF_ERROR(check(o.training));
  if (o.width < 1 || o.width > 4096) return error_at("`width`", "must be 1 to 4096, got {}", o.width);
  if (o.filters < 1 || o.filters > 4096) return error_at("`filters`", "must be 1 to 4096, got {}", o.filters);
  if (!(o.dropout >= 0 && o.dropout < 1))
    return error_at("`dropout`", "must be at least 0 and below 1, got {}", o.dropout);
  TextCnn net;
  const std::set<std::string> labels(data.labels.begin(), data.labels.end());
  if (labels.size() < 2)
    return error_at("data", "has {} labels; a classifier needs 2 or more", labels.size());
  net.labels_.assign(labels.begin(), labels.end());
  net.words_ = WordVocabulary::count(data.texts, o.min_count, static_cast<size_t>(o.max_words));
  net.width_ = o.vectors ? static_cast<int64_t>(o.vectors->width) : o.width;
  net.filters_ = o.filters, net.windows_ = o.windows, net.max_text_words_ = o.max_text_words;
  net.dropout_ = static_cast<float>(o.dropout);
  net.declare();
  initialize(net.set_, HiddenActivation::kRelu, static_cast<uint64_t>(o.training.seed));
  for (int64_t i = 0; i < net.table_->value.count(); ++i)  // word vectors: uniform in [-.25, .25]
    net.table_->value.f32()[i] =
        0.5f *
            Rng(static_cast<uint64_t>(o.training.seed), Purpose::kInit, 0).uniform(static_cast<uint64_t>(i)) -
        0.25f;
  for (int64_t id = WordVocabulary::kFirst; o.vectors && id < net.words_.size(); ++id)
    if (const auto vector = vector_of(*o.vectors, net.words_.word(id)))
      std::copy(vector->begin(), vector->end(), net.table_->value.f32() + id * net.width_);
  std::fill_n(net.table_->value.f32(), net.width_, 0.0f);  // padding
  net.set_.to(device.memory());
  std::vector<std::vector<int64_t>> texts;
  std::vector<int64_t> targets;
  for (size_t i = 0; i < data.texts.size(); ++i) {
    texts.push_back(net.ids_of(data.texts[i]));
    targets.push_back(std::lower_bound(net.labels_.begin(), net.labels_.end(), data.labels[i]) -
                      net.labels_.begin());
  }
  MAKAR_RETURN_IF_ERROR(train_net(
      net.set_, device, o.training, texts.size(),
      [&](Context& ctx, std::span<const size_t> examples) {
        std::vector<std::vector<int64_t>> batch;
        std::vector<int64_t> batch_targets;
        for (const size_t i : examples) batch.push_back(texts[i]), batch_targets.push_back(targets[i]);
        return ops::cross_entropy(ctx, net.forward(ctx, batch), batch_targets);
      },
      [&](const EpochResult& r) -> Result<bool> {
        each(r);
        return true;
      }));
  return net;
}

std::vector<std::vector<double>> TextCnn::classify(const std::vector<std::string>& texts, Device& device) {
  constexpr size_t kBatchTexts = 64;
  std::vector<std::vector<double>> out;
  for (size_t first = 0; first < texts.size(); first += kBatchTexts) {
    std::vector<std::vector<int64_t>> batch;
    for (size_t i = first; i < std::min(first + kBatchTexts, texts.size()); ++i)
      batch.push_back(ids_of(texts[i]));
    Context ctx{device};
    const Tensor p = ops::softmax(ctx, forward(ctx, batch)).host();
    for (size_t i = 0; i < batch.size(); ++i) {
      const float* row = p.f32() + static_cast<int64_t>(i) * p.dim(1);
      out.emplace_back(row, row + p.dim(1));
    }
  }
  return out;
}

double TextCnn::accuracy(const TextsWithLabels& data, Device& device) {
  const auto answers = classify(data.texts, device);
  size_t correct = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto best =
        static_cast<size_t>(std::max_element(answers[i].begin(), answers[i].end()) - answers[i].begin());
    correct += labels_[best] == data.labels[i];
  }
  return static_cast<double>(correct) / static_cast<double>(std::max<size_t>(1, answers.size()));
}

Status TextCnn::save(const std::string& folder) const {
  return save_net(folder,
                  {{"kind", "text-cnn"},
                   {"width", width_},
                   {"filters", filters_},
                   {"windows", windows_},
                   {"longest", max_text_words_},
                   {"labels", labels_},
                   {"words", words_.json()}},
                  set_);
}

Result<TextCnn> TextCnn::load(const std::string& folder) {
  MAKAR_TRY(const Json json, read_net(folder));
  const std::string place = folder + "/net.json";
  TextCnn net;
  const auto positive_integer = [&](const Json& value, int64_t max) -> Result<int64_t> {
    if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > max)
      return error_at(place, "expected an integer from 1 to {}, found {}", max, value.dump());
    return value.get<int64_t>();
  };
  const auto list = [&](const char* key, size_t min, size_t max) -> Result<Json> {
    const Json value = json.value(key, Json());
    if (!value.is_array() || value.size() < min || value.size() > max)
      return error_at(place, "'{}' must be a list of {} to {} entries", key, min, max);
    return value;
  };
  if (json["kind"] != "text-cnn") return error_at(place, "this network is not a classifier of texts");
  MAKAR_TRY(net.width_, positive_integer(json.value("width", Json()), 4096));
  MAKAR_TRY(net.filters_, positive_integer(json.value("filters", Json()), 4096));
  MAKAR_TRY(net.max_text_words_, positive_integer(json.value("longest", Json()), 1 << 20));
  MAKAR_TRY(const Json windows, list("windows", 0, 16));
  for (const Json& w : windows) {
    MAKAR_TRY(net.windows_.emplace_back(), positive_integer(w, 64));
  }
  MAKAR_TRY(const Json labels, list("labels", 2, 65536));
  for (const Json& l : labels) {
    if (!l.is_string()) return error_at(place, "labels must be strings");
    net.labels_.push_back(l.get<std::string>());
  }
  MAKAR_TRY(net.words_, WordVocabulary::from_json(json.value("words", Json()), place));
  net.declare();
  MAKAR_RETURN_IF_ERROR(load_weights(folder, net.set_));
  return net;
}

}  // namespace makar
