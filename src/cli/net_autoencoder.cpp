// makar net autoencoder: an autoencoder of images or bags of words.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/file.h"
#include "base/rng.h"
#include "cli/command.h"
#include "cli/net_data.h"
#include "cli/net_training.h"
#include "cli/run.h"
#include "nets/autoencoder.h"
#include "nets/plots.h"

namespace makar {
namespace {

// reconstructions.png (originals above their reconstructions), interpolation.png and, for a variational
// autoencoder, samples.png.
Status write_code_images(Autoencoder& net, const Numbers& test, const std::string& folder, uint64_t seed,
                         Device& device) {
  constexpr int64_t kColumns = 10;
  const auto count = static_cast<int64_t>(std::min<size_t>(kColumns, test.count));
  std::vector<size_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  Context ctx{device};
  const Tensor x = test.rows(device, indices), code = net.encode(ctx, x);
  std::vector<float> all = values_of(x), reconstructed = values_of(net.decode(ctx, code));
  all.insert(all.end(), reconstructed.begin(), reconstructed.end());
  MAKAR_RETURN_IF_ERROR(write_file(folder + "/reconstructions.png",
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
    const Tensor path_codes =
        Tensor::from({rows * kColumns, width}, std::span<const float>(path)).to(device.memory());
    MAKAR_RETURN_IF_ERROR(write_file(folder + "/interpolation.png",
                                     image_grid(values_of(net.decode(ctx, path_codes)), rows * kColumns,
                                                test.height, test.columns, kColumns)));
  }
  if (net.kind() != CodeKind::kVariational) return Done{};
  const Rng rng(seed, Purpose::kSynthetic);
  std::vector<float> random_codes;
  for (int64_t i = 0; i < kColumns * kColumns * width; ++i)
    random_codes.push_back(rng.normal(static_cast<uint64_t>(i)));
  const Tensor z =
      Tensor::from({kColumns * kColumns, width}, std::span<const float>(random_codes)).to(device.memory());
  return write_file(folder + "/samples.png", image_grid(values_of(net.decode(ctx, z)), kColumns * kColumns,
                                                        test.height, test.columns, kColumns));
}

}  // namespace

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
  if (limit < 0) return report(error_at("--limit", "must be 0 or more, got {}", limit)), 2;
  if (words < 1 || words > 65536) return report(error_at("--words", "must be 1 to 65536, got {}", words)), 2;
  const auto compute = open_device_option(out.device, out.threads);
  if (!compute.ok()) return report(compute.error());
  const auto data = read_examples_of(path, words, limit, {});
  if (!data.ok()) return report(data.error());
  const auto test = test_path.empty() ? data : read_examples_of(test_path, words, limit, data->words);
  if (!test.ok()) return report(test.error());
  auto net = Autoencoder::train(*data, *test, o, **compute, [&](const CodeEpoch& e) {
    if (prints_epoch(out, e.epoch, o.training.epochs))
      fmt::print(stderr, "epoch {}/{} | loss {:.3f} | reconstruction {:.3f}\n", e.epoch, o.training.epochs,
                 e.loss, e.reconstruction);
  });
  if (!net.ok()) return report(net.error());
  Curve training{"training", {}, {}}, reconstruction{"reconstruction", {}, {}};
  for (const CodeEpoch& e : net->epochs())
    training.add(static_cast<double>(e.epoch), e.loss),
        reconstruction.add(static_cast<double>(e.epoch), e.reconstruction);
  Status written = net->save(out.folder);
  if (written.ok()) written = write_file(out.folder + "/loss.svg", loss_chart({training, reconstruction}));
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
  fmt::print("{}: {} examples, reconstruction {:.3f} nats, {:.1f} % of the code's units active\n", out.folder,
             data->count, net->epochs().back().reconstruction, 100 * active);
  return 0;
}

}  // namespace makar
