#include "nets/tabular.h"

#include <algorithm>
#include <cmath>

#include "data/permutation.h"
#include "nets/losses.h"
#include "nets/numbers.h"
#include "ops/softmax.h"

namespace makar {
namespace {

// Encoded rows and their targets.
struct EncodedRows {
  size_t count = 0, width = 0;
  std::vector<float> values, targets;
  static Result<EncodedRows> encode(const std::vector<TableRow>& rows, const TableEncoder& encoder,
                                    const char* what) {
    EncodedRows out;
    out.count = rows.size(), out.width = encoder.width();
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string place = fmt::format("{} row {}", what, i + 1);
      MAKAR_TRY(const std::vector<float> values, encoder.encode(rows[i], place));
      out.values.insert(out.values.end(), values.begin(), values.end());
      MAKAR_TRY(const float target, encoder.target(rows[i], place));
      out.targets.push_back(target);
    }
    return out;
  }
  Tensor rows(Device& device, std::span<const size_t> examples) const {
    return select_rows(device, values, width, examples);
  }
};

Tensor loss_of(Context& ctx, const std::string& loss, bool classes, const Tensor& out,
               const EncodedRows& data, std::span<const size_t> examples) {
  std::vector<float> targets;
  for (const size_t i : examples) targets.push_back(data.targets[i]);
  if (classes) return class_loss(ctx, loss, out, {targets.begin(), targets.end()});
  return number_loss(ctx, loss, out, targets);
}

constexpr size_t kBatchRows = 1024;  // rows per batch of validation and prediction

}  // namespace

Result<TabularNet> TabularNet::train(const std::vector<TableRow>& all_rows,
                                     const std::vector<TableRow>& validation_rows, const TabularOptions& o,
                                     Device& device, const std::function<void(const TabularEpoch&)>& each) {
  MAKAR_RETURN_IF_ERROR(check(o.training));
  if (!(o.validation >= 0 && o.validation < 1))
    return error_at("`val_set_size`", "must be at least 0 and below 1, got {}", o.validation);
  std::vector<TableRow> rows = all_rows, held_out = validation_rows;
  if (validation_rows.empty() && o.validation > 0) {
    constexpr uint64_t kSplitEpoch = 1u << 20;  // no epoch has this number: the split has its own permutation
    const Permutation order(all_rows.size(), static_cast<uint64_t>(o.training.seed), kSplitEpoch);
    const auto held_out_count = static_cast<size_t>(o.validation * static_cast<double>(all_rows.size()));
    rows.clear();
    for (size_t i = 0; i < all_rows.size(); ++i)
      (i < held_out_count ? held_out : rows).push_back(all_rows[order(i)]);
  }
  TabularNet net;
  net.target_ = o.target, net.training_rows_ = rows.size();
  MAKAR_TRY(net.encoder_, TableEncoder::fit(rows, o.classes));
  const bool classes = net.encoder_.is_classes();
  MAKAR_TRY(const std::string loss, loss_named(o.loss, classes, "`loss`"));
  if (loss == "poisson") MAKAR_RETURN_IF_ERROR(net.encoder_.use_counts(rows));
  MAKAR_TRY(const EncodedRows data, EncodedRows::encode(rows, net.encoder_, "training"));
  MAKAR_TRY(const EncodedRows validation_data, EncodedRows::encode(held_out, net.encoder_, "validation"));
  MlpSpec spec;
  MAKAR_TRY(spec.widths, parse_widths(o.hidden, "`hidden`"));
  spec.widths.insert(spec.widths.begin(), static_cast<int64_t>(data.width));
  spec.widths.push_back(classes ? static_cast<int64_t>(net.encoder_.classes().size()) : 1);
  MAKAR_TRY(spec.activation, parse_activation(o.activation, "`activation`"));
  spec.batch_norm = o.batch_norm, spec.dropout = static_cast<float>(o.dropout);
  MAKAR_RETURN_IF_ERROR(check(spec, "`hidden`"));
  net.net_ = Mlp(net.set_, "net", spec);
  initialize(net.set_, spec.activation, static_cast<uint64_t>(o.training.seed));
  net.set_.to(device.memory());

  const auto measure = [&](const EncodedRows& d, TabularEpoch& e) {
    double total = 0, score = 0;
    for (size_t first = 0; first < d.count; first += kBatchRows) {
      std::vector<size_t> examples;
      for (size_t i = first; i < std::min(first + kBatchRows, d.count); ++i) examples.push_back(i);
      Context ctx{device};
      const Tensor out = net.net_(ctx, d.rows(device, examples));
      total += loss_of(ctx, loss, classes, out, d, examples).host().f32()[0] *
               static_cast<double>(examples.size());
      const Tensor host = out.host();
      const int64_t width = host.dim(1);
      for (size_t i = 0; i < examples.size(); ++i) {
        const float* row = host.f32() + static_cast<int64_t>(i) * width;
        const float expected = d.targets[examples[i]];
        if (classes)
          score += std::max_element(row, row + width) - row == static_cast<int64_t>(expected);
        else
          score += std::pow(net.encoder_.number(row[0]) - net.encoder_.target_number(expected), 2);
      }
    }
    e.validation_loss = total / static_cast<double>(d.count);
    e.score =
        classes ? score / static_cast<double>(d.count) : std::sqrt(score / static_cast<double>(d.count));
  };
  std::vector<Tensor> best_weights;
  const EncodedRows& measured_data = validation_data.count > 0 ? validation_data : data;
  const auto after_epoch = [&](const EpochResult& r) -> Result<bool> {
    TabularEpoch e{r.epoch, r.loss, 0, 0};
    measure(measured_data, e);
    net.epochs_.push_back(e);
    each(e);
    if (net.epochs_.size() == 1 || e.validation_loss < net.best_.validation_loss) {
      net.best_ = e;
      best_weights.clear();
      for (const auto& p : net.set_.all()) best_weights.push_back(p->value.clone());
    }
    return o.patience == 0 || e.epoch - net.best_.epoch < o.patience;
  };
  MAKAR_RETURN_IF_ERROR(train_net(
      net.set_, device, o.training, data.count,
      [&](Context& ctx, std::span<const size_t> examples) {
        return loss_of(ctx, loss, classes, net.net_(ctx, data.rows(device, examples)), data, examples);
      },
      after_epoch));
  for (size_t i = 0; i < best_weights.size(); ++i) net.set_.all()[i]->value = best_weights[i];
  return net;
}

std::vector<std::vector<double>> TabularNet::predict_encoded(std::vector<float> encoded, Device& device) {
  const auto width = static_cast<int64_t>(encoder_.width());
  const int64_t count = static_cast<int64_t>(encoded.size()) / width;
  Context ctx{device};
  Tensor out = net_(ctx, Tensor::from({count, width}, std::span<const float>(encoded)).to(device.memory()));
  if (encoder_.is_classes()) out = ops::softmax(ctx, out);
  out = out.host();
  std::vector<std::vector<double>> predictions;
  for (int64_t i = 0; i < count; ++i) {
    const float* row = out.f32() + i * out.dim(1);
    predictions.emplace_back(row, row + out.dim(1));
    if (!encoder_.is_classes()) predictions.back()[0] = encoder_.number(row[0]);
  }
  return predictions;
}

Result<std::vector<std::vector<double>>> TabularNet::predict(const std::vector<TableRow>& rows,
                                                             Device& device) {
  std::vector<std::vector<double>> out;
  for (size_t first = 0; first < rows.size(); first += kBatchRows) {
    std::vector<float> encoded;
    for (size_t i = first; i < std::min(first + kBatchRows, rows.size()); ++i) {
      MAKAR_TRY(const auto values, encoder_.encode(rows[i], fmt::format("row {}", i + 1)));
      encoded.insert(encoded.end(), values.begin(), values.end());
    }
    for (auto& answer : predict_encoded(std::move(encoded), device)) out.push_back(std::move(answer));
  }
  return out;
}

Status TabularNet::save(const std::string& folder) const {
  return save_net(
      folder,
      {{"kind", "tabular"}, {"target", target_}, {"table", encoder_.json()}, {"net", to_json(net_.spec())}},
      set_);
}

Result<TabularNet> TabularNet::load(const std::string& folder) {
  MAKAR_TRY(const Json json, read_net(folder));
  const std::string place = folder + "/net.json";
  if (json["kind"] != "tabular" || !json.contains("target") || !json["target"].is_string() ||
      !json.contains("table") || !json.contains("net"))
    return error_at(place, "this is not a tabular network");
  TabularNet net;
  net.target_ = json["target"].get<std::string>();
  MAKAR_TRY(net.encoder_, TableEncoder::from_json(json["table"], place));
  MAKAR_TRY(MlpSpec spec, mlp_from_json(json["net"], place));
  const size_t out = net.encoder_.is_classes() ? net.encoder_.classes().size() : 1;
  if (spec.widths.front() != static_cast<int64_t>(net.encoder_.width()) ||
      spec.widths.back() != static_cast<int64_t>(out))
    return error_at(place, "the widths of the network and of the table disagree");
  net.net_ = Mlp(net.set_, "net", std::move(spec));
  MAKAR_RETURN_IF_ERROR(load_weights(folder, net.set_));
  return net;
}

}  // namespace makar
