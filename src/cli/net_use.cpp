// makar net run and net sample: predictions, codes, perplexities and samples of trained networks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file.h"
#include "base/rng.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/net_data.h"
#include "cli/run.h"
#include "nets/autoencoder.h"
#include "nets/gan.h"
#include "nets/neural_lm.h"
#include "nets/plots.h"
#include "nets/tabular.h"

namespace makar {
namespace {

Status run_tabular(const std::string& folder, const std::string& path, Device& device) {
  MAKAR_TRY(auto net, TabularNet::load(folder));
  BadRecords bad;
  MAKAR_TRY(const auto rows, read_table_to_predict(path, net.target(), net.encoder().column_names(), bad));
  for (const std::string& line : bad.reported) fmt::print(stderr, "makar: skipped {}\n", line);
  if (bad.count > bad.reported.size()) fmt::print(stderr, "makar: skipped {} rows in all\n", bad.count);
  MAKAR_TRY(const auto answers, net.predict(rows, device));
  for (const auto& answer : answers) {
    if (!net.encoder().is_classes()) {
      fmt::print("{}\n", Json{{"prediction", answer[0]}}.dump());
      continue;
    }
    const auto best = static_cast<size_t>(std::max_element(answer.begin(), answer.end()) - answer.begin());
    fmt::print("{}\n", dump(Json{{"prediction", net.encoder().classes()[best]}, {"score", answer[best]}}));
  }
  return Done{};
}

// The code of each example, and its reconstruction loss: the binary cross-entropy in nats.
Status run_autoencoder(const std::string& folder, const std::string& path, Device& device) {
  constexpr size_t kExamplesPerPass = 256;
  MAKAR_TRY(auto net, Autoencoder::load(folder));
  MAKAR_TRY(const Numbers data, read_examples_of(path, net.inputs(), 0, net.words()));
  if ((data.height > 0) != (net.height() > 0))
    return error_at(path, "has {}, the network reads {}", data.height > 0 ? "images" : "text",
                    net.height() > 0 ? "images; give an idx3-ubyte file" : "text");
  if (net.height() > 0 && (data.height != net.height() || data.columns != net.columns()))
    return error_at(path, "has images of {} x {}, the network reads {} x {}", data.height, data.columns,
                    net.height(), net.columns());
  if (static_cast<int64_t>(data.width) != net.inputs())
    return error_at(path, "has {} numbers per example, the network reads {}", data.width, net.inputs());
  for (size_t first = 0; first < data.count; first += kExamplesPerPass) {
    std::vector<size_t> indices(std::min(kExamplesPerPass, data.count - first));
    std::iota(indices.begin(), indices.end(), first);
    Context ctx{device};
    const Tensor code = net.encode(ctx, data.rows(device, indices));
    const std::vector<float> codes = values_of(code), reconstructed = values_of(net.decode(ctx, code));
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto width = static_cast<size_t>(net.code_width());
      double loss = 0;
      for (size_t j = 0; j < data.width; ++j) {
        const double x = data.values[indices[i] * data.width + j],
                     y = std::clamp<double>(reconstructed[i * data.width + j], 1e-7, 1 - 1e-7);
        loss -= x * std::log(y) + (1 - x) * std::log1p(-y);
      }
      const std::vector<float> example_code(codes.begin() + static_cast<std::ptrdiff_t>(i * width),
                                            codes.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
      fmt::print("{}\n", Json{{"code", example_code}, {"reconstruction", loss}}.dump());
    }
  }
  return Done{};
}

Status run_lm(const std::string& folder, const std::string& path, Device& device) {
  MAKAR_TRY(auto net, NeuralLm::load(folder));
  MAKAR_TRY(const auto lines, read_sentences({path}));
  const LmScore score = net.score(lines, device);
  const Json json = {{"perplexity", score.perplexity}, {"words", score.words}, {"unknown", score.unknown}};
  fmt::print("{}\n", json.dump());
  return Done{};
}

// Limits the number of images, which are all computed at once.
Status check_pixels(int64_t count, int64_t height, int64_t columns) {
  constexpr int64_t kMaxPixels = int64_t{1} << 23;
  if (count <= kMaxPixels / (height * columns)) return Done{};
  return error_of(Error::Kind::kLimit, "--count", "at most {} images of {} x {} are drawn at once",
                  kMaxPixels / (height * columns), height, columns);
}

// Images of random codes.
Result<std::vector<float>> sample_images(const std::string& folder, const std::string& kind, int64_t count,
                                         uint64_t seed, Device& device, int64_t& height, int64_t& columns) {
  if (kind == "gan") {
    MAKAR_TRY(auto gan, Gan::load(folder));
    height = gan.height(), columns = gan.columns();
    MAKAR_RETURN_IF_ERROR(check_pixels(count, height, columns));
    return gan.sample(static_cast<size_t>(count), seed, device);
  }
  MAKAR_TRY(auto net, Autoencoder::load(folder));
  if (net.kind() != CodeKind::kVariational || net.height() == 0)
    return error_at(folder, "generates no images; a GAN or a variational autoencoder of images does");
  height = net.height(), columns = net.columns();
  MAKAR_RETURN_IF_ERROR(check_pixels(count, height, columns));
  const Rng rng(seed, Purpose::kSynthetic);
  std::vector<float> codes;
  for (int64_t i = 0; i < count * net.code_width(); ++i)
    codes.push_back(rng.normal(static_cast<uint64_t>(i)));
  Context ctx{device};
  const Tensor z = Tensor::from({count, net.code_width()}, std::span<const float>(codes)).to(device.memory());
  return values_of(net.decode(ctx, z));
}

Result<std::string> kind_of(const std::string& folder) {
  MAKAR_TRY(const Json json, read_net(folder));
  return json["kind"].get<std::string>();
}

}  // namespace

int run_net_run(const std::vector<std::string>& arguments) {
  std::string folder, path;
  int64_t threads = 0;
  Options options("net run",
                  "Use a trained network on data; prints JSON lines. Tables: predictions; autoencoders: the "
                  "code of each example and its reconstruction loss; language models: the perplexity.",
                  "makar net run runs/houses new.csv");
  options.positional("MODEL", &folder, "folder of the network");
  options.positional("FILE", &path, "data as for training; the target column of a table is not needed");
  declare_threads(options, threads);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto compute = open_device_option("cpu", threads);
  if (!compute.ok()) return report(compute.error());
  const auto kind = kind_of(folder);
  if (!kind.ok()) return report(kind.error());
  if (*kind == "gan") return report(error_at(folder, "is a GAN; use makar net sample"));
  const Status s = *kind == "autoencoder" ? run_autoencoder(folder, path, **compute)
                   : *kind == "neural-lm" ? run_lm(folder, path, **compute)
                                          : run_tabular(folder, path, **compute);
  return s.ok() ? 0 : report(s.error());
}

int run_net_sample(const std::vector<std::string>& arguments) {
  std::string folder, output;
  int64_t count = 100, seed = 1, threads = 0;
  Options options("net sample",
                  "Draw images of a GAN or a variational autoencoder into a PNG file, or print sentences of "
                  "a feed-forward language model.",
                  "makar net sample runs/gan -n 64 --seed 2 -o digits.png");
  options.positional("MODEL", &folder, "folder of the network");
  options.add("-n --count", &count, "number of images or sentences", "N");
  options.add("-o --output --out", &output, "images: PNG file to write", "FILE");
  options.add("--seed", &seed, "seed of the random codes or words", "S");
  declare_threads(options, threads);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (count < 1 || count > 10000) return report(error_at("--count", "must be 1 to 10000, got {}", count)), 2;
  const auto compute = open_device_option("cpu", threads);
  if (!compute.ok()) return report(compute.error());
  const auto kind = kind_of(folder);
  if (!kind.ok()) return report(kind.error());
  const auto random_seed = static_cast<uint64_t>(seed);
  if (*kind == "neural-lm") {
    auto net = NeuralLm::load(folder);
    if (!net.ok()) return report(net.error());
    for (int64_t i = 0; i < count; ++i)
      fmt::print("{}\n", net->generate(random_seed, static_cast<uint64_t>(i), 40, **compute));
    return 0;
  }
  if (*kind != "gan" && *kind != "autoencoder")
    return report(error_at(folder, "cannot be sampled; use makar net run for predictions"));
  if (output.empty()) return report(error_at("--output", "is required: the PNG file for the images")), 2;
  int64_t height = 0, columns = 0;
  const auto images = sample_images(folder, *kind, count, random_seed, **compute, height, columns);
  if (!images.ok()) return report(images.error());
  const auto per_row = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  if (const Status s = write_file(output, image_grid(*images, count, height, columns, per_row)); !s.ok())
    return report(s.error());
  fmt::print("{}: {} images\n", output, count);
  return 0;
}

}  // namespace makar
