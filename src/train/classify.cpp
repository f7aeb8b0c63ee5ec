#include "train/classify.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

// Cross-entropy over the positions of each sequence, mean over sequences; targets[s] is a position in
// sequence s.
Tensor position_loss(Context& ctx, const Tensor& logits, const Batch& batch,
                     const std::vector<int64_t>& targets) {
  Tensor total;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const Sequence& q = batch.sequences[s];
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < q.length; ++i) rows.push_back(q.start + i);
    const Tensor row = ops::reshape(ctx, ops::gather_rows(ctx, logits, rows), {1, q.length});
    const Tensor loss = ops::cross_entropy(ctx, row, std::vector<int64_t>{targets[s]});
    total = total.defined() ? ops::add(ctx, total, loss) : loss;
  }
  return ops::scale(ctx, total, 1.0f / static_cast<float>(batch.sequences.size()));
}

int64_t argmax(const float* row, int64_t n) { return std::max_element(row, row + n) - row; }

double pearson(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double mx = 0, my = 0, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) mx += x[i] / n, my += y[i] / n;
  for (size_t i = 0; i < x.size(); ++i)
    xy += (x[i] - mx) * (y[i] - my), xx += (x[i] - mx) * (x[i] - mx), yy += (y[i] - my) * (y[i] - my);
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace

Result<LoadedModel> with_head(const std::string& base, const std::string& head,
                              const std::vector<std::string>& labels, bool regression, uint64_t seed) {
  MAKAR_TRY(const LoadedModel old, load_model(base, {true}));
  return with_head(*old.model, old.model->spec().config, base, head, labels, regression, seed);
}

Result<LoadedModel> with_head(const Model& old, Json config, const std::string& place,
                              const std::string& head, const std::vector<std::string>& labels,
                              bool regression, uint64_t seed, bool multi_label) {
  std::string prefix = old.spec().architecture;
  for (const char* end : {"For", "Model", "LMHead"})
    if (const size_t at = prefix.find(end); at != std::string::npos) prefix.resize(at);
  config["architectures"] = {prefix + head};
  Json id2label = Json::object(), label2id = Json::object();
  for (size_t i = 0; i < labels.size(); ++i) id2label[std::to_string(i)] = labels[i], label2id[labels[i]] = i;
  for (const char* key : {"id2label", "label2id", "num_labels", "problem_type"}) config.erase(key);
  if (!labels.empty()) config["id2label"] = id2label, config["label2id"] = label2id;
  if (regression) config["id2label"] = {{"0", "LABEL_0"}}, config["problem_type"] = "regression";
  if (multi_label) config["problem_type"] = "multi_label_classification";
  MAKAR_TRY(LoadedModel loaded, make_model(Config(config, place + "/config.json")));
  initialize(*loaded.model, seed);
  for (const auto& p : loaded.model->parameters().all())
    if (const Parameter* q = old.parameters().find(p->name); q && q->shape == p->shape && q->value.defined())
      p->value = q->value.to(DType::kF32).clone();
  return loaded;
}

void freeze_body(Model& model, int64_t layers) {
  constexpr std::string_view kLayers = ".layers.";
  for (const auto& p : model.parameters().all()) {
    if (p->name.starts_with("head.") || p->name.find(".mix.") != std::string::npos) continue;
    const size_t at = p->name.find(kLayers);
    const bool embedding = p->name.find(".embed.") != std::string::npos;
    const int64_t layer = at == std::string::npos ? -1 : std::atoll(p->name.c_str() + at + kLayers.size());
    if (layers < 0 || embedding || (layer >= 0 && layer < layers)) p->trainable = false;
  }
}

Batch batch_of(const Model& model, std::span<const LabelledText> texts) {
  Batch batch;
  const StackSpec& body = model.spec().encoder ? *model.spec().encoder : *model.spec().decoder;
  for (const LabelledText& t : texts) {
    batch.add(t.ids);
    if (body.embedding.types > 0) {
      if (t.types.empty()) batch.types.insert(batch.types.end(), t.ids.size(), 0);
      for (const int64_t type : t.types) batch.types.push_back(std::min(type, body.embedding.types - 1));
    }
  }
  return batch;
}

std::map<std::string, Tensor> head_outputs(const Model& model, Device& device, const Batch& batch) {
  Context ctx{device};
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source = batch;
  std::map<std::string, Tensor> out = model.outputs(ctx, model.hidden(f, inputs), batch);
  for (auto& [name, value] : out) value = value.host();
  return out;
}

ClassifyTask::ClassifyTask(Model& model, LabelledData data, int64_t batch, uint64_t seed, float smoothing)
    : ExampleTask(data.train.size(), data.validation.size(), batch, seed),
      model_(model),
      data_(std::move(data)),
      smoothing_(smoothing) {}

Result<std::vector<LabelledText>> ClassifyTask::read(std::span<const size_t> which, bool validation) const {
  std::vector<LabelledText> out;
  for (const size_t w : which) {
    MAKAR_TRY(out.emplace_back(), (validation ? data_.validation : data_.train).read(w));
  }
  return out;
}

std::string ClassifyTask::watched() const {
  return data_.kind == LabelKind::kNumber ? "pearson" : data_.kind == LabelKind::kAnswer ? "f1" : "accuracy";
}

Result<MicroBatch> ClassifyTask::make(std::span<const size_t> which, bool validation, uint64_t) {
  MAKAR_TRY(const auto texts, read(which, validation));
  Batch batch = batch_of(model_, texts);
  std::vector<int64_t> targets, ends, groups;
  std::vector<float> numbers;
  for (const LabelledText& t : texts) {
    if (data_.kind == LabelKind::kTags) targets.insert(targets.end(), t.tags.begin(), t.tags.end());
    if (data_.kind == LabelKind::kClass) targets.push_back(t.label), groups.push_back(t.group);
    if (data_.kind == LabelKind::kAnswer) targets.push_back(t.start), ends.push_back(t.end);
    if (data_.kind == LabelKind::kNumber) numbers.push_back(t.number);
  }
  MicroBatch out;
  out.tokens = batch.rows(), out.squared_lengths = squared_lengths(batch);
  const auto ignored = std::count(targets.begin(), targets.end(), ops::kIgnore);
  out.weight = data_.kind == LabelKind::kTags
                   ? static_cast<double>(targets.size()) - static_cast<double>(ignored)
                   : static_cast<double>(texts.size());
  out.loss = [this, batch = std::move(batch), targets = std::move(targets), ends = std::move(ends),
              numbers = std::move(numbers), groups = std::move(groups)](ForwardContext& f) -> Result<Tensor> {
    Context& ctx = f.ops;
    Inputs inputs;
    inputs.source = batch;
    auto outputs = model_.outputs(ctx, model_.hidden(f, inputs), batch);
    if (data_.kind == LabelKind::kAnswer)
      return ops::scale(ctx,
                        ops::add(ctx, position_loss(ctx, outputs.at("start_logits"), batch, targets),
                                 position_loss(ctx, outputs.at("end_logits"), batch, ends)),
                        0.5f);
    const Tensor& logits = outputs.at("logits");
    if (data_.kind == LabelKind::kNumber)
      return ops::mse_loss(
          ctx, logits, Tensor::from(logits.shape(), std::span<const float>(numbers)).to(ctx.device.memory()));
    return class_loss(ctx, logits, targets, groups);
  };
  return out;
}

Tensor ClassifyTask::class_loss(Context& ctx, const Tensor& logits, const std::vector<int64_t>& targets,
                                const std::vector<int64_t>& groups) const {
  ops::CrossEntropyOptions o;
  o.smoothing = ctx.tape ? smoothing_ : 0.0f;
  if (!ctx.tape || (!weights_ && !adversary_)) return ops::cross_entropy(ctx, logits, targets, o);
  std::vector<float> weights;
  for (size_t i = 0; weights_ && i < targets.size(); ++i)
    weights.push_back((*weights_)(groups[i], targets[i]));
  const Tensor loss = weights_ ? weighted_cross_entropy(ctx, logits, targets, weights)
                               : ops::cross_entropy(ctx, logits, targets, o);
  return adversary_ ? ops::add(ctx, loss, adversary_->loss(ctx, logits, targets, groups)) : loss;
}

Status ClassifyTask::debias(const DebiasOptions& options) {
  if (!options.any()) return Done{};
  if (data_.kind != LabelKind::kClass)
    return error_of(Error::Kind::kUnsupported, "reweigh",
                    "groups can be balanced only in classification, not for numbers, tags or answers");
  if (data_.groups.size() < 2)
    return error_at("group_field", "the data has {} groups; at least 2 are needed", data_.groups.size());
  if (options.reweigh) {
    MAKAR_TRY(weights_, GroupWeights::of(data_.train, data_.groups.size(), data_.names.size()));
  }
  if (options.adversary > 0)
    adversary_.emplace(model_, static_cast<int64_t>(data_.names.size()),
                       static_cast<int64_t>(data_.groups.size()), options, seed_);
  return Done{};
}

namespace {

// Scores predicted answers. Windows of one question must be consecutive.
class AnswerMetrics {
 public:
  void add(LabelledText window, const float* starts, const float* ends) {
    if (!windows_.empty() && windows_[0].question != window.question) finish();
    starts_.emplace_back(starts, starts + window.ids.size());
    ends_.emplace_back(ends, ends + window.ids.size());
    windows_.push_back(std::move(window));
  }
  Metrics result() {
    finish();
    const double questions = std::max(questions_, 1.0);
    return {{"f1", f1_ / questions}, {"exact_match", exact_ / questions}};
  }

 private:
  void finish() {
    if (windows_.empty()) return;
    const std::string answer = best_answer(windows_, starts_, ends_);
    double best = 0, same = 0;
    for (const std::string& truth : windows_[0].answers) {
      best = std::max(best, answer_f1(answer, truth));
      same = std::max(same, normalize_answer(answer) == normalize_answer(truth) ? 1.0 : 0.0);
    }
    f1_ += best, exact_ += same, ++questions_;
    windows_.clear(), starts_.clear(), ends_.clear();
  }
  std::vector<LabelledText> windows_;
  std::vector<std::vector<float>> starts_, ends_;
  double f1_ = 0, exact_ = 0, questions_ = 0;
};

}  // namespace

Result<Metrics> ClassifyTask::metrics(Device& device) {
  double correct = 0, counted = 0, squared_error = 0;
  std::vector<double> predicted, expected;
  AnswerMetrics answers;
  for (size_t at = 0; at < held_out_; at += batch_) {
    std::vector<size_t> which;
    for (size_t i = at; i < std::min(at + batch_, held_out_); ++i) which.push_back(i);
    MAKAR_TRY(auto texts, read(which, true));
    const Batch batch = batch_of(model_, texts);
    const auto outputs = head_outputs(model_, device, batch);
    for (size_t i = 0; i < texts.size(); ++i) {
      const Sequence& q = batch.sequences[i];
      if (data_.kind == LabelKind::kAnswer) {
        answers.add(std::move(texts[i]), outputs.at("start_logits").f32() + q.start,
                    outputs.at("end_logits").f32() + q.start);
        continue;
      }
      const Tensor& logits = outputs.at("logits");
      const int64_t classes = logits.dim(1);
      if (data_.kind == LabelKind::kNumber) {
        predicted.push_back(logits.f32()[i]), expected.push_back(texts[i].number);
        squared_error += (predicted.back() - expected.back()) * (predicted.back() - expected.back());
      } else if (data_.kind == LabelKind::kClass) {
        correct += argmax(logits.f32() + static_cast<int64_t>(i) * classes, classes) == texts[i].label,
            ++counted;
      } else {
        for (int64_t t = 0; t < q.length; ++t) {
          const int64_t tag = texts[i].tags[static_cast<size_t>(t)];
          if (tag == ops::kIgnore) continue;
          correct += argmax(logits.f32() + (q.start + t) * classes, classes) == tag, ++counted;
        }
      }
    }
  }
  if (data_.kind == LabelKind::kNumber)
    return Metrics{{"pearson", pearson(predicted, expected)},
                   {"mse", squared_error / static_cast<double>(std::max<size_t>(1, predicted.size()))}};
  if (data_.kind == LabelKind::kAnswer) return answers.result();
  return Metrics{{"accuracy", counted > 0 ? correct / counted : 0}};
}

std::string normalize_answer(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x80 && std::ispunct(u)) continue;
    plain += u < 0x80 ? static_cast<char>(std::tolower(u)) : c;
  }
  std::istringstream words(plain);
  std::string out;
  for (std::string w; words >> w;)
    if (w != "a" && w != "an" && w != "the") out += (out.empty() ? "" : " ") + w;
  return out;
}

double answer_f1(const std::string& predicted, const std::string& truth) {
  const auto words = [](const std::string& text) {
    std::istringstream in(normalize_answer(text));
    std::map<std::string, int> out;
    for (std::string w; in >> w;) ++out[w];
    return out;
  };
  const auto a = words(predicted), b = words(truth);
  double common = 0, in_a = 0, in_b = 0;
  for (const auto& [w, n] : a) {
    in_a += n;
    if (const auto it = b.find(w); it != b.end()) common += std::min(n, it->second);
  }
  for (const auto& word : b) in_b += word.second;
  if (in_a == 0 || in_b == 0) return in_a == in_b ? 1 : 0;
  return common > 0 ? 2 * common / (in_a + in_b) : 0;
}

std::string best_answer(std::span<const LabelledText> windows, const std::vector<std::vector<float>>& starts,
                        const std::vector<std::vector<float>>& ends) {
  constexpr size_t kMaxAnswerTokens = 30;
  float best = -INFINITY;
  std::string answer;
  for (size_t w = 0; w < windows.size(); ++w) {
    const LabelledText& t = windows[w];
    for (size_t i = 0; i < t.offsets.size(); ++i) {
      if (t.offsets[i].end == 0) continue;
      for (size_t j = i; j < std::min(i + kMaxAnswerTokens, t.offsets.size()) && t.offsets[j].end > 0; ++j)
        if (starts[w][i] + ends[w][j] > best) {
          best = starts[w][i] + ends[w][j];
          answer = t.context.substr(t.offsets[i].begin, t.offsets[j].end - t.offsets[i].begin);
        }
    }
  }
  return answer;
}

}  // namespace makar
