// makar net tabular: a network on the columns of a table.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "cli/command.h"
#include "cli/net_training.h"
#include "cli/run.h"
#include "nets/losses.h"
#include "nets/plots.h"
#include "nets/tabular.h"

namespace makar {
namespace {

// The plot of a table with one or two columns of numbers; "" for others.
std::string table_plot(TabularNet& net, const std::vector<TableRow>& rows, Device& device) {
  const auto columns = net.encoder().numeric_columns();
  const bool classes = net.encoder().is_classes();
  if (columns.size() != (classes ? 2u : 1u)) return "";
  const auto predictions = [&](const std::vector<PlotPoint>& points) {
    std::vector<float> encoded;
    for (const PlotPoint& p : points) {
      TableRow row;
      row.fields[columns[0]] = fmt::format("{}", p.x);
      if (classes) row.fields[columns[1]] = fmt::format("{}", p.y);
      const auto values = net.encoder().encode(row, "").value();
      encoded.insert(encoded.end(), values.begin(), values.end());
    }
    return net.predict_encoded(std::move(encoded), device);
  };
  std::vector<PlotPoint> points;
  for (const TableRow& row : rows) {
    const auto number = [&](const std::string& name) {
      const auto it = row.fields.find(name);
      return it == row.fields.end() ? std::nullopt : number_in(it->second);
    };
    const auto x = number(columns[0]), y = classes ? number(columns[1]) : number_in(row.target);
    const auto label = net.encoder().target(row, "");
    if (x && y && label.ok()) points.push_back({*x, *y, classes ? static_cast<int64_t>(*label) : 0});
  }
  if (points.empty()) return "";
  if (!classes)
    return fit_plot(fmt::format("{} by {}", net.target(), columns[0]), points,
                    [&](const std::vector<double>& xs) {
                      std::vector<PlotPoint> at;
                      for (const double x : xs) at.push_back({x, 0, 0});
                      std::vector<double> out;
                      for (const auto& prediction : predictions(at)) out.push_back(prediction[0]);
                      return out;
                    });
  return boundary_plot(fmt::format("{} by {} and {}", net.target(), columns[0], columns[1]), points,
                       net.encoder().classes(), [&](const std::vector<PlotPoint>& at) {
                         std::vector<int64_t> out;
                         for (const auto& a : predictions(at))
                           out.push_back(std::max_element(a.begin(), a.end()) - a.begin());
                         return out;
                       });
}

// Saves the network with its plots and prints its scores.
int report_net(TabularNet& net, const std::vector<TableRow>& rows, const BadRecords& bad,
               const NetOutput& out, Device& device) {
  const bool classes = net.encoder().is_classes();
  if (const Status s = net.save(out.folder); !s.ok()) return report(s.error());
  Curve training{"training", {}, {}}, validation{"validation", {}, {}};
  for (const TabularEpoch& e : net.epochs())
    training.add(static_cast<double>(e.epoch), e.loss),
        validation.add(static_cast<double>(e.epoch), e.validation_loss);
  const std::string plot = table_plot(net, rows, device);
  Status written = write_file(out.folder + "/loss.svg", loss_chart({training, validation}));
  if (written.ok() && !plot.empty())
    written = write_file(out.folder + (classes ? "/boundary.svg" : "/fit.svg"), plot);
  if (!written.ok()) return report(written.error());
  const char* score = classes ? "accuracy" : "rmse";
  if (out.json) {
    const Json json = {{"output_dir", out.folder},       {"rows", net.training_rows()},
                       {"bad_records", bad.count},       {"parameters", net.parameters()},
                       {"best_epoch", net.best().epoch}, {"validation_loss", net.best().validation_loss},
                       {score, net.best().score}};
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("{}: {} rows, {} parameters, best epoch {}, validation loss {:.4f}, {} {:.4f}\n", out.folder,
             net.training_rows(), net.parameters(), net.best().epoch, net.best().validation_loss, score,
             net.best().score);
  for (const std::string& line : bad.reported) fmt::print("  skipped {}\n", line);
  return 0;
}

}  // namespace

int run_net_tabular(const std::vector<std::string>& arguments) {
  std::string path, validation;
  TabularOptions o;
  NetOutput out;
  std::string losses;
  for (const LossKind& k : loss_kinds()) losses += fmt::format(", {}", k.name);
  Options options("net tabular", "Train a network on the columns of a CSV file: a class or a number.",
                  "makar net tabular houses.csv --target price --hidden 64,64 -o runs/houses");
  options.positional("FILE", &path, "CSV or TSV file with a header");
  options.add("--target", &o.target, "column to predict; its number in a file without a header", "NAME")
      .required = true;
  options.add("--classes", &o.classes, "the target is a class, even if its values are numbers");
  options.add("--val-dataset --test", &validation, "file to validate on", "FILE");
  options.add("--val-set-size", &o.validation, "share of the rows to validate on, without --val-dataset",
              "X");
  options.add("--patience", &o.patience,
              "stop after this many epochs without a better validation loss; 0: never", "N");
  options.group("Network");
  options.add("--hidden", &o.hidden, "widths of the hidden layers; empty for a linear model", "N,N");
  options.add("--activation", &o.activation, "relu, leaky-relu, tanh, sigmoid, gelu or silu", "NAME");
  options.add("--dropout", &o.dropout, "dropout after each hidden layer", "X");
  options.add("--batch-norm", &o.batch_norm, "batch norm in each hidden layer");
  options.add("--loss", &o.loss, "auto" + losses, "NAME");
  o.training.epochs = 100, o.training.batch = 32, o.training.learning_rate = 3e-3;
  declare_net_training(options, o.training, out);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = check(o.training); !s.ok()) return report(s.error()), 2;
  const auto compute = open_device_option(out.device, out.threads);
  if (!compute.ok()) return report(compute.error());
  BadRecords bad, bad_validation;
  const auto rows = read_table(path, o.target, bad);
  if (!rows.ok()) return report(rows.error());
  std::vector<TableRow> held_out;
  if (!validation.empty()) {
    auto read = read_table(validation, o.target, bad_validation);
    if (!read.ok()) return report(read.error());
    held_out = std::move(*read);
  }
  auto net = TabularNet::train(*rows, held_out, o, **compute, [&](const TabularEpoch& e) {
    if (prints_epoch(out, e.epoch, o.training.epochs))
      fmt::print(stderr, "epoch {}/{} | loss {:.4f} | validation {:.4f} | score {:.4f}\n", e.epoch,
                 o.training.epochs, e.loss, e.validation_loss, e.score);
  });
  if (!net.ok()) return report(net.error());
  return report_net(*net, *rows, bad, out, **compute);
}

}  // namespace makar
