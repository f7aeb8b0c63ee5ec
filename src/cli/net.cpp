// makar net: feed-forward networks on tables, autoencoders, and a generative adversarial network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/file.h"
#include "base/progress.h"
#include "base/rng.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/net_data.h"
#include "cli/run.h"
#include "nets/autoencoder.h"
#include "nets/gan.h"
#include "nets/losses.h"
#include "nets/neural_lm.h"
#include "nets/plots.h"
#include "nets/tabular.h"
#include "train/svg.h"

namespace makar {

int run_net_run(const std::vector<std::string>&);
int run_net_sample(const std::vector<std::string>&);

namespace {

struct NetOutput {
  std::string folder, device = "cpu";
  int64_t threads = 0;
  bool quiet = false, json = false;
};

void declare_net_training(Options& o, NetTraining& t, NetOutput& out) {
  o.group("Training");
  o.add("--epochs --num-epochs", &t.epochs, "passes over the data", "N");
  o.add("--batch-size --micro-batch-size", &t.batch, "examples per step", "N");
  o.add("--learning-rate --lr", &t.learning_rate, "peak learning rate", "X");
  o.add("--lr-scheduler", &t.lr_scheduler, fmt::format("schedule: {}", fmt::join(schedule_names(), ", ")),
        "NAME");
  o.add("--optimizer", &t.optimizer, fmt::format("optimiser: {}", fmt::join(optimizer_names(), ", ")),
        "NAME");
  o.add("--weight-decay", &t.weight_decay, "weight decay of the matrices", "X");
  o.add("--max-grad-norm", &t.max_grad_norm, "clip the norm of the gradient; 0: off", "X");
  o.add("--seed", &t.seed, "seed for initialisation, shuffling and noise", "S");
  o.group("Output");
  o.add("-o --output --out", &out.folder, "output folder", "DIR").required = true;
  o.add("-q --quiet", &out.quiet, "print no progress");
  o.add("--json", &out.json, "print the result as JSON");
  declare_threads(o, out.threads);
  declare_device(o, out.device);
}

// One line per epoch, at most about fifty.
bool is_shown(const NetOutput& out, int64_t epoch, int64_t epochs) {
  return !out.quiet && !out.json && (epoch % std::max<int64_t>(1, epochs / 50) == 0 || epoch == epochs);
}

std::string loss_chart(const std::vector<Curve>& curves) {
  return svg_chart("loss by epoch", curves, XAxis::kSteps);
}

// --- tables ---

// The plot of a table with one or two columns of numbers; "" for others.
std::string table_plot(TabularNet& net, const std::vector<TableRow>& rows, Device& device) {
  const auto columns = net.encoder().numeric_columns();
  const bool classes = net.encoder().is_classes();
  if (columns.size() != (classes ? 2u : 1u)) return "";
  const auto answers = [&](const std::vector<Point>& points) {
    std::vector<float> encoded;
    for (const Point& p : points) {
      TableRow row;
      row.fields[columns[0]] = fmt::format("{}", p.x);
      if (classes) row.fields[columns[1]] = fmt::format("{}", p.y);
      const auto values = net.encoder().encode(row, "").value();
      encoded.insert(encoded.end(), values.begin(), values.end());
    }
    return net.answers(std::move(encoded), device);
  };
  std::vector<Point> points;
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
                      std::vector<Point> at;
                      for (const double x : xs) at.push_back({x, 0, 0});
                      std::vector<double> out;
                      for (const auto& answer : answers(at)) out.push_back(answer[0]);
                      return out;
                    });
  return boundary_plot(fmt::format("{} by {} and {}", net.target(), columns[0], columns[1]), points,
                       net.encoder().classes(), [&](const std::vector<Point>& at) {
                         std::vector<int64_t> out;
                         for (const auto& a : answers(at))
                           out.push_back(std::max_element(a.begin(), a.end()) - a.begin());
                         return out;
                       });
}

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
  const auto compute = open_compute(out.device, out.threads);
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
    if (is_shown(out, e.epoch, o.training.epochs))
      fmt::print(stderr, "epoch {}/{} | loss {:.4f} | validation {:.4f} | score {:.4f}\n", e.epoch,
                 o.training.epochs, e.loss, e.validation_loss, e.score);
  });
  if (!net.ok()) return report(net.error());
  const bool classes = net->encoder().is_classes();
  if (const Status s = net->save(out.folder); !s.ok()) return report(s.error());
  Curve training{"training", {}, {}}, held{"validation", {}, {}};
  for (const TabularEpoch& e : net->epochs())
    training.add(static_cast<double>(e.epoch), e.loss),
        held.add(static_cast<double>(e.epoch), e.validation_loss);
  const std::string plot = table_plot(*net, *rows, **compute);
  Status written = write_file(out.folder + "/loss.svg", loss_chart({training, held}));
  if (written.ok() && !plot.empty())
    written = write_file(out.folder + (classes ? "/boundary.svg" : "/fit.svg"), plot);
  if (!written.ok()) return report(written.error());
  const char* score = classes ? "accuracy" : "rmse";
  if (out.json) {
    const Json json = {{"output_dir", out.folder},        {"rows", net->training_rows()},
                       {"bad_records", bad.count},        {"parameters", net->parameters()},
                       {"best_epoch", net->best().epoch}, {"validation_loss", net->best().validation_loss},
                       {score, net->best().score}};
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("{}: {} rows, {} parameters, best epoch {}, validation loss {:.4f}, {} {:.4f}\n", out.folder,
             net->training_rows(), net->parameters(), net->best().epoch, net->best().validation_loss, score,
             net->best().score);
  for (const std::string& line : bad.reported) fmt::print("  skipped {}\n", line);
  return 0;
}

// --- images and texts ---

// reconstructions.png (originals above their reconstructions), interpolation.png and, for a variational
// autoencoder, samples.png.
Status write_code_images(Autoencoder& net, const Numbers& test, const std::string& folder, uint64_t seed,
                         Device& device) {
  constexpr int64_t kColumns = 10;
  const auto count = static_cast<int64_t>(std::min<size_t>(kColumns, test.count));
  std::vector<size_t> which(static_cast<size_t>(count));
  std::iota(which.begin(), which.end(), 0);
  Context ctx{device};
  const Tensor x = test.rows(device, which), code = net.encode(ctx, x);
  std::vector<float> all = values_of(x), rebuilt = values_of(net.decode(ctx, code));
  all.insert(all.end(), rebuilt.begin(), rebuilt.end());
  MAKAR_CHECK_OK(write_file(folder + "/reconstructions.png",
                            image_grid(all, 2 * count, test.height, test.columns, count)));
  // Row r interpolates between the codes of examples r and r + 1.
  const Tensor codes = code.host();
  const int64_t width = net.code_width(), rows = std::min<int64_t>(5, count - 1);
  std::vector<float> path;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < kColumns; ++c)
      for (int64_t i = 0; i < width; ++i) {
        const float a = codes.f32()[r * width + i], b = codes.f32()[(r + 1) * width + i];
        path.push_back(a + (b - a) * static_cast<float>(c) / (kColumns - 1));
      }
  if (rows > 0) {
    const Tensor at =
        Tensor::from({rows * kColumns, width}, std::span<const float>(path)).to(device.memory());
    MAKAR_CHECK_OK(write_file(
        folder + "/interpolation.png",
        image_grid(values_of(net.decode(ctx, at)), rows * kColumns, test.height, test.columns, kColumns)));
  }
  if (net.kind() != CodeKind::kVariational) return Done{};
  const Rng rng(seed, Purpose::kSynthetic);
  std::vector<float> drawn;
  for (int64_t i = 0; i < kColumns * kColumns * width; ++i)
    drawn.push_back(rng.normal(static_cast<uint64_t>(i)));
  const Tensor z =
      Tensor::from({kColumns * kColumns, width}, std::span<const float>(drawn)).to(device.memory());
  return write_file(folder + "/samples.png", image_grid(values_of(net.decode(ctx, z)), kColumns * kColumns,
                                                        test.height, test.columns, kColumns));
}

int run_net_autoencoder(const std::vector<std::string>& arguments) {
  std::string path, test_path;
  AutoencoderOptions o;
  NetOutput out;
  int64_t words = 2000, limit = 0;
  Options options(
      "net autoencoder", "Train an autoencoder on images (IDX files such as MNIST) or on bags of words.",
      "makar net autoencoder train-images-idx3-ubyte.gz --test t10k-images-idx3-ubyte.gz --kind variational "
      "-o runs/vae");
  options.positional("FILE", &path, "images (…idx3-ubyte), or records with a text");
  options.add("--test", &test_path, "data to measure the reconstruction on; the training data if not set",
              "FILE");
  options.add("--limit", &limit, "at most this many examples; 0 for all", "N");
  options.add("--words", &words, "texts: number of most frequent words to count", "N");
  options.group("Network");
  options.add("--kind", &o.kind, "undercomplete, sparse-l1, sparse-kl, denoising or variational", "NAME");
  options.add("--hidden", &o.hidden, "widths of the encoder's hidden layers; the decoder has them in reverse",
              "N,N");
  options.add("--code", &o.code, "width of the code", "N");
  options.add("--activation", &o.activation, "relu, leaky-relu, tanh, sigmoid, gelu or silu", "NAME");
  options.add(
      "--penalty", &o.penalty,
      "weight of the sparsity penalty (0.1 for L1, 3 for KL) or of the KL divergence (variational: 1)", "X");
  options.add("--activity", &o.activity, "sparse-kl: target mean activation per unit of the code", "X");
  options.add("--noise", &o.noise, "denoising: share of the inputs set to zero", "X");
  o.training.epochs = 10, o.training.batch = 128;
  declare_net_training(options, o.training, out);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = check(o.training); !s.ok()) return report(s.error()), 2;
  if (limit < 0 || words < 1 || words > 65536)
    return report(error_at("--words", "must be 1 to 65536, and --limit 0 or more")), 2;
  const auto compute = open_compute(out.device, out.threads);
  if (!compute.ok()) return report(compute.error());
  const auto data = read_examples_of(path, words, limit, {});
  if (!data.ok()) return report(data.error());
  const auto test = test_path.empty() ? data : read_examples_of(test_path, words, limit, data->words);
  if (!test.ok()) return report(test.error());
  auto net = Autoencoder::train(*data, *test, o, **compute, [&](const CodeEpoch& e) {
    if (is_shown(out, e.epoch, o.training.epochs))
      fmt::print(stderr, "epoch {}/{} | loss {:.3f} | reconstruction {:.3f}\n", e.epoch, o.training.epochs,
                 e.loss, e.reconstruction);
  });
  if (!net.ok()) return report(net.error());
  Curve training{"training", {}, {}}, held{"reconstruction", {}, {}};
  for (const CodeEpoch& e : net->epochs())
    training.add(static_cast<double>(e.epoch), e.loss),
        held.add(static_cast<double>(e.epoch), e.reconstruction);
  Status written = net->save(out.folder);
  if (written.ok()) written = write_file(out.folder + "/loss.svg", loss_chart({training, held}));
  if (written.ok() && test->height > 0)
    written = write_code_images(*net, *test, out.folder, static_cast<uint64_t>(o.training.seed), **compute);
  if (!written.ok()) return report(written.error());
  const double active = net->activity(*test, **compute);
  if (out.json) {
    const Json json = {{"output_dir", out.folder},
                       {"examples", data->count},
                       {"reconstruction", net->epochs().back().reconstruction},
                       {"active_share", active}};
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("{}: {} examples, reconstruction {:.3f} nats, {:.1f} % of the code active\n", out.folder,
             data->count, net->epochs().back().reconstruction, 100 * active);
  return 0;
}

int run_net_gan(const std::vector<std::string>& arguments) {
  std::string path;
  GanOptions o;
  NetOutput out;
  int64_t limit = 0;
  Options options("net gan", "Train a generative adversarial network on images (IDX files such as MNIST).",
                  "makar net gan train-images-idx3-ubyte.gz -o runs/gan");
  options.positional("FILE", &path, "images (…idx3-ubyte)");
  options.add("--limit", &limit, "at most this many images; 0 for all", "N");
  options.group("Network");
  options.add("--kind", &o.kind, "conv (convolutions) or mlp (linear layers)", "NAME");
  options
      .add("--generator", &o.generator,
           "conv: channels of the generator's layers, each at twice the size; mlp: widths of its hidden "
           "layers",
           "N,N")
      .default_text = "conv 64,32; mlp 256,512";
  options
      .add("--discriminator", &o.discriminator,
           "conv: channels of the discriminator's layers, each at half the size; mlp: widths of its hidden "
           "layers",
           "N,N")
      .default_text = "conv 32,64; mlp 512,256";
  options.add("--code", &o.code, "width of the random code", "N");
  options.group("Stabilisers");
  options.add("--label-smoothing", &o.smoothing, "target of real images is 1 minus this", "X");
  options.add("--noise", &o.noise, "noise on the discriminator's inputs, which fades to 0", "X");
  options.add("--dropout", &o.dropout, "dropout of the discriminator", "X");
  options.add("--ema", &o.average, "decay of the averaged generator; 0: no averaging", "X");
  options.add("--beta1", &o.training.beta1, "the optimiser's first decay", "X").default_text = "0.5";
  options.add("--discriminator-learning-rate", &o.discriminator_rate,
              "peak learning rate of the discriminator; 0: that of the generator", "X");
  o.training.epochs = 10, o.training.batch = 64, o.training.learning_rate = 5e-4,
  o.training.optimizer = "adam";
  declare_net_training(options, o.training, out);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = check(o.training); !s.ok()) return report(s.error()), 2;
  if (limit < 0) return report(error_at("--limit", "must be 0 or more, got {}", limit)), 2;
  if (const Status s = check(o); !s.ok()) return report(s.error()), 2;
  const auto compute = open_compute(out.device, out.threads);
  if (!compute.ok()) return report(compute.error());
  const auto data = read_images(path, static_cast<size_t>(limit));
  if (!data.ok()) return report(data.error());
  if (const Status s = check(o, *data); !s.ok()) return report(s.error()), 2;
  if (const Status s = make_folder(out.folder); !s.ok()) return report(s.error());
  const auto draw = [&](const std::vector<float>& images) {
    return write_file(out.folder + "/samples.png", image_grid(images, 100, data->height, data->columns, 10));
  };
  std::optional<Progress> progress;  // of an epoch
  o.progress = [&](int64_t epoch, size_t step, size_t steps) {
    if (!progress) progress.emplace(out.quiet || out.json);
    progress->show(fmt::format("epoch {}/{}", epoch, o.training.epochs), step, steps);
  };
  Status drawn = Done{};  // samples.png is written after every epoch, so that a run can be watched or stopped
  auto gan = Gan::train(*data, o, **compute, [&](const GanEpoch& e, const Gan::Preview& preview) {
    if (drawn.ok()) drawn = draw(preview(100));
    progress.reset();
    if (is_shown(out, e.epoch, o.training.epochs))
      fmt::print(stderr,
                 "epoch {}/{} | discriminator {:.3f} | generator {:.3f} | real {:.2f} | generated {:.2f}\n",
                 e.epoch, o.training.epochs, e.discriminator_loss, e.generator_loss, e.real, e.made);
  });
  progress.reset();
  if (!gan.ok()) return report(gan.error());
  Curve d{"discriminator", {}, {}}, g{"generator", {}, {}};
  for (const GanEpoch& e : gan->epochs())
    d.add(static_cast<double>(e.epoch), e.discriminator_loss),
        g.add(static_cast<double>(e.epoch), e.generator_loss);
  const auto samples = gan->sample(100, static_cast<uint64_t>(o.training.seed), **compute);
  Status written = gan->save(out.folder);
  if (written.ok()) written = write_file(out.folder + "/loss.svg", loss_chart({d, g}));
  if (written.ok()) written = draw(samples);
  if (!written.ok()) return report(written.error());
  const GanEpoch& last = gan->epochs().back();
  if (out.json) {
    const Json json = {{"output_dir", out.folder},
                       {"images", data->count},
                       {"discriminator_loss", last.discriminator_loss},
                       {"generator_loss", last.generator_loss},
                       {"real", last.real},
                       {"made", last.made}};
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("{}: {} images; discriminator output {:.2f} on real, {:.2f} on generated images\n", out.folder,
             data->count, last.real, last.made);
  return 0;
}

int run_net_lm(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  std::string test;
  NeuralLmOptions o;
  NetOutput out;
  int64_t samples = 3;
  Options options("net lm", "Train a feed-forward language model on sentences, one per line.",
                  "makar net lm books.txt --test test.txt --context 4 -o runs/nplm");
  options.positional("PATHS", &paths, "texts; each line is a sentence");
  options.add("--test", &test, "text to measure the perplexity on", "FILE");
  options.add("--samples", &samples, "sentences to print", "N");
  options.group("Network");
  options.add("--context", &o.context, "number of previous words in the context", "N");
  options.add("--width", &o.width, "width of a word's vector", "N");
  options.add("--hidden", &o.hidden, "width of the hidden layer", "N");
  options.add("--min-count", &o.min_count, "words with fewer occurrences become unknown", "N");
  options.add("--words", &o.most_words, "maximum vocabulary size in words", "N");
  declare_net_training(options, o.training, out);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = check(o.training); !s.ok()) return report(s.error()), 2;
  if (samples < 0 || samples > 1000)
    return report(error_at("--samples", "must be 0 to 1000, got {}", samples)), 2;
  const auto compute = open_compute(out.device, out.threads);
  if (!compute.ok()) return report(compute.error());
  const auto sentences = read_sentences(paths);
  if (!sentences.ok()) return report(sentences.error());
  auto net = NeuralLm::train(*sentences, o, **compute, [&](const EpochResult& e) {
    if (is_shown(out, e.epoch, o.training.epochs))
      fmt::print(stderr, "epoch {}/{} | loss {:.4f} | ppl {:.1f}\n", e.epoch, o.training.epochs, e.loss,
                 std::exp(e.loss));
  });
  if (!net.ok()) return report(net.error());
  if (const Status s = net->save(out.folder); !s.ok()) return report(s.error());
  Json json = {{"output_dir", out.folder}, {"parameters", net->parameters()}, {"vocabulary", net->words()}};
  if (!test.empty()) {
    const auto held_out = read_sentences({test});
    if (!held_out.ok()) return report(held_out.error());
    const LmScore score = net->score(*held_out, **compute);
    json["perplexity"] = score.perplexity, json["words"] = score.words, json["unknown"] = score.unknown;
  }
  Json texts = Json::array();
  for (int64_t i = 0; i < samples; ++i)
    texts.push_back(
        net->generate(static_cast<uint64_t>(o.training.seed), static_cast<uint64_t>(i), 40, **compute));
  json["samples"] = texts;
  if (out.json) return fmt::print("{}\n", dump(json)), 0;
  fmt::print("{}: {} parameters, {} words", out.folder, net->parameters(), net->words());
  if (json.contains("perplexity"))
    fmt::print(", perplexity {:.1f} on {} words ({} unknown)", json["perplexity"].get<double>(),
               json["words"].get<int64_t>(), json["unknown"].get<int64_t>());
  fmt::print("\n");
  for (const Json& text : texts) fmt::print("  {}\n", text.get<std::string>());
  return 0;
}

}  // namespace

int run_net(const std::vector<std::string>& arguments) {
  constexpr Command kNetCommands[] = {
      {"tabular", "train a network on the columns of a CSV file", run_net_tabular},
      {"run", "predict, encode or score with a trained network", run_net_run},
      {"sample", "draw images or sentences from a trained network", run_net_sample},
      {"autoencoder", "train an autoencoder on images or bags of words", run_net_autoencoder},
      {"lm", "train a feed-forward language model", run_net_lm},
      {"gan", "train a generative adversarial network on images", run_net_gan},
  };
  return run_subcommand("net", "Train and use feed-forward networks on tables, images and words.",
                        "makar net tabular houses.csv --target price -o runs/houses", kNetCommands,
                        arguments);
}

}  // namespace makar
