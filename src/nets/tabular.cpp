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
struct Encoded {
  size_t count = 0, width = 0;
  std::vector<float> values, targets;
  static Result<Encoded> of(const std::vector<TableRow>& rows, const TableEncoder& encoder,
                            const char* what) {
    Encoded out;
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
  Tensor rows(Device& device, std::span<const size_t> which) const {
    return select_rows(device, values, width, which);
  }
};

Tensor loss_of(Context& ctx, const std::string& loss, bool classes, const Tensor& out, const Encoded& data,
               std::span<const size_t> which) {
  std::vector<float> targets;
  for (const size_t w : which) targets.push_back(data.targets[w]);
  if (classes) return class_loss(ctx, loss, out, {targets.begin(), targets.end()});
  return number_loss(ctx, loss, out, targets);
}

constexpr size_t kBlock = 1024;  // rows of a validation batch

}  // namespace

Result<TabularNet> TabularNet::train(const std::vector<TableRow>& all, const std::vector<TableRow>& given,
                                     const TabularOptions& o, Device& device,
                                     const std::function<void(const TabularEpoch&)>& each) {
  MAKAR_CHECK_OK(check(o.training));
  if (!(o.validation >= 0 && o.validation < 1))
    return error_at("`val_set_size`", "must be at least 0 and below 1, got {}", o.validation);
  std::vector<TableRow> rows = all, held_out = given;
  if (given.empty() && o.validation > 0) {
    const Permutation order(all.size(), static_cast<uint64_t>(o.training.seed), 1u << 20);
    const auto held = static_cast<size_t>(o.validation * static_cast<double>(all.size()));
    rows.clear();
    for (size_t i = 0; i < all.size(); ++i) (i < held ? held_out : rows).push_back(all[order(i)]);
  }
  TabularNet net;
  net.target_ = o.target, net.training_rows_ = rows.size();
  MAKAR_TRY(net.encoder_, TableEncoder::fit(rows, o.classes));
  const bool classes = net.encoder_.is_classes();
  MAKAR_TRY(const std::string loss, loss_named(o.loss, classes, "`loss`"));
  if (loss == "poisson") MAKAR_CHECK_OK(net.encoder_.use_counts(rows));
  MAKAR_TRY(const Encoded data, Encoded::of(rows, net.encoder_, "training"));
  MAKAR_TRY(const Encoded check_data, Encoded::of(held_out, net.encoder_, "validation"));
  MlpSpec spec;
  MAKAR_TRY(spec.widths, parse_widths(o.hidden, "`hidden`"));
  spec.widths.insert(spec.widths.begin(), static_cast<int64_t>(data.width));
  spec.widths.push_back(classes ? static_cast<int64_t>(net.encoder_.classes().size()) : 1);
  MAKAR_TRY(spec.unit, parse_unit(o.activation, "`activation`"));
  spec.batch_norm = o.batch_norm, spec.dropout = static_cast<float>(o.dropout);
  MAKAR_CHECK_OK(check(spec, "`hidden`"));
  net.net_ = Mlp(net.set_, "net", spec);
  initialize(net.set_, spec.unit, static_cast<uint64_t>(o.training.seed));
  net.set_.to(device.memory());

  const auto measure = [&](const Encoded& d, TabularEpoch& e) {
    double total = 0, score = 0;
    for (size_t first = 0; first < d.count; first += kBlock) {
      std::vector<size_t> which;
      for (size_t i = first; i < std::min(first + kBlock, d.count); ++i) which.push_back(i);
      Context ctx{device};
      const Tensor out = net.net_(ctx, d.rows(device, which));
      total += loss_of(ctx, loss, classes, out, d, which).host().f32()[0] * static_cast<double>(which.size());
      const Tensor host = out.host();
      const int64_t width = host.dim(1);
      for (size_t i = 0; i < which.size(); ++i) {
        const float* row = host.f32() + static_cast<int64_t>(i) * width;
        const float want = d.targets[which[i]];
        if (classes)
          score += std::max_element(row, row + width) - row == static_cast<int64_t>(want);
        else
          score += std::pow(net.encoder_.number(row[0]) - net.encoder_.target_number(want), 2);
      }
    }
    e.validation_loss = total / static_cast<double>(d.count);
    e.score =
        classes ? score / static_cast<double>(d.count) : std::sqrt(score / static_cast<double>(d.count));
  };
  std::vector<Tensor> kept;
  const Encoded& watched = check_data.count > 0 ? check_data : data;
  const auto after = [&](const EpochResult& r) -> Result<bool> {
    TabularEpoch e{r.epoch, r.loss, 0, 0};
    measure(watched, e);
    net.epochs_.push_back(e);
    each(e);
    if (net.epochs_.size() == 1 || e.validation_loss < net.best_.validation_loss) {
      net.best_ = e;
      kept.clear();
      for (const auto& p : net.set_.all()) kept.push_back(p->value.clone());
    }
    return o.patience == 0 || e.epoch - net.best_.epoch < o.patience;
  };
  MAKAR_CHECK_OK(train_net(
      net.set_, device, o.training, data.count,
      [&](Context& ctx, std::span<const size_t> which) {
        return loss_of(ctx, loss, classes, net.net_(ctx, data.rows(device, which)), data, which);
      },
      after));
  for (size_t i = 0; i < kept.size(); ++i) net.set_.all()[i]->value = kept[i];
  return net;
}

std::vector<std::vector<double>> TabularNet::predict_encoded(std::vector<float> encoded, Device& device) {
  const auto width = static_cast<int64_t>(encoder_.width());
  const int64_t count = static_cast<int64_t>(encoded.size()) / width;
  Context ctx{device};
  Tensor out = net_(ctx, Tensor::from({count, width}, std::span<const float>(encoded)).to(device.memory()));
  if (encoder_.is_classes()) out = ops::softmax(ctx, out);
  out = out.host();
  std::vector<std::vector<double>> all;
  for (int64_t i = 0; i < count; ++i) {
    const float* row = out.f32() + i * out.dim(1);
    all.emplace_back(row, row + out.dim(1));
    if (!encoder_.is_classes()) all.back()[0] = encoder_.number(row[0]);
  }
  return all;
}

Result<std::vector<std::vector<double>>> TabularNet::predict(const std::vector<TableRow>& rows,
                                                             Device& device) {
  std::vector<std::vector<double>> out;
  for (size_t first = 0; first < rows.size(); first += kBlock) {
    std::vector<float> encoded;
    for (size_t i = first; i < std::min(first + kBlock, rows.size()); ++i) {
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
    return error_at(place, "is not a tabular network");
  TabularNet net;
  net.target_ = json["target"].get<std::string>();
  MAKAR_TRY(net.encoder_, TableEncoder::from_json(json["table"], place));
  MAKAR_TRY(MlpSpec spec, mlp_from_json(json["net"], place));
  const size_t out = net.encoder_.is_classes() ? net.encoder_.classes().size() : 1;
  if (spec.widths.front() != static_cast<int64_t>(net.encoder_.width()) ||
      spec.widths.back() != static_cast<int64_t>(out))
    return error_at(place, "the widths of the network and of the table disagree");
  net.net_ = Mlp(net.set_, "net", std::move(spec));
  MAKAR_CHECK_OK(load_weights(folder, net.set_));
  return net;
}

}  // namespace makar
