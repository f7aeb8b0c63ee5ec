// makar net gan: a generative adversarial network on images.
#include <fmt/format.h>

#include <optional>

#include "base/file.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/net_training.h"
#include "cli/run.h"
#include "nets/gan.h"
#include "nets/plots.h"

namespace makar {
namespace {

struct GanCommand {
  std::string path;
  int64_t limit = 0;
  GanOptions gan;
  NetOutput out;
  void declare(Options& options);
};

void GanCommand::declare(Options& options) {
  options.positional("FILE", &path, "images (…idx3-ubyte)");
  options.add("--limit", &limit, "at most this many images; 0 for all", "N");
  options.group("Network");
  options.add("--kind", &gan.kind, "conv (convolutions) or mlp (linear layers)", "NAME");
  options
      .add("--generator", &gan.generator,
           "conv: channels of the generator's layers, each at twice the size; mlp: widths of its hidden "
           "layers",
           "N,N")
      .default_text = "conv 64,32; mlp 256,512";
  options
      .add("--discriminator", &gan.discriminator,
           "conv: channels of the discriminator's layers, each at half the size; mlp: widths of its hidden "
           "layers",
           "N,N")
      .default_text = "conv 32,64; mlp 512,256";
  options.add("--code", &gan.code, "width of the random code", "N");
  options.group("Stabilisers");
  options.add("--label-smoothing", &gan.smoothing, "target of real images is 1 minus this", "X");
  options.add(
      "--noise", &gan.noise,
      "standard deviation of the noise on the discriminator's inputs; it falls to 0 by the end of training",
      "X");
  options.add("--dropout", &gan.dropout, "dropout of the discriminator", "X");
  options.add("--ema", &gan.average, "decay of the averaged generator; 0: no averaging", "X");
  options.add("--beta1", &gan.training.beta1, "decay of the optimiser's momentum", "X").default_text = "0.5";
  options.add("--discriminator-learning-rate", &gan.discriminator_rate,
              "peak learning rate of the discriminator; 0: the same as the generator's", "X");
  gan.training.epochs = 10, gan.training.batch = 64, gan.training.learning_rate = 5e-4,
  gan.training.optimizer = "adam";
  declare_net_training(options, gan.training, out);
}

std::string losses_of(const Gan& gan) {
  Curve d{"discriminator", {}, {}}, g{"generator", {}, {}};
  for (const GanEpoch& e : gan.epochs())
    d.add(static_cast<double>(e.epoch), e.discriminator_loss),
        g.add(static_cast<double>(e.epoch), e.generator_loss);
  return loss_chart({d, g});
}

void print_result(const NetOutput& out, size_t images, const GanEpoch& last) {
  if (out.json) {
    const Json json = {{"output_dir", out.folder},
                       {"images", images},
                       {"discriminator_loss", last.discriminator_loss},
                       {"generator_loss", last.generator_loss},
                       {"real", last.real},
                       {"generated", last.generated}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{}: {} images; discriminator output {:.2f} on real, {:.2f} on generated images\n", out.folder,
             images, last.real, last.generated);
}

}  // namespace

int run_net_gan(const std::vector<std::string>& arguments) {
  GanCommand command;
  GanOptions& o = command.gan;
  const NetOutput& out = command.out;
  Options options("net gan", "Train a generative adversarial network on images (IDX files such as MNIST).",
                  "makar net gan train-images-idx3-ubyte.gz -o runs/gan");
  command.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = check(o.training); !s.ok()) return report(s.error()), 2;
  if (command.limit < 0) return report(error_at("--limit", "must be 0 or more, got {}", command.limit)), 2;
  if (const Status s = check(o); !s.ok()) return report(s.error()), 2;
  const auto compute = open_device_option(out.device, out.threads);
  if (!compute.ok()) return report(compute.error());
  const auto data = read_images(command.path, static_cast<size_t>(command.limit));
  if (!data.ok()) return report(data.error());
  if (const Status s = check(o, *data); !s.ok()) return report(s.error()), 2;
  if (const Status s = make_folder(out.folder); !s.ok()) return report(s.error());
  const auto draw = [&](const std::vector<float>& images) {
    return write_file(out.folder + "/samples.png", image_grid(images, 100, data->height, data->columns, 10));
  };
  std::optional<Progress> progress;  // of the current epoch
  o.progress = [&](int64_t epoch, size_t step, size_t steps) {
    if (!progress) progress.emplace(out.quiet || out.json);
    progress->show(fmt::format("epoch {}/{}", epoch, o.training.epochs), step, steps);
  };
  // samples.png is written after every epoch, so that a run can be watched or stopped.
  Status preview_status = Done{};
  auto gan = Gan::train(*data, o, **compute, [&](const GanEpoch& e, const Gan::Preview& preview) {
    if (preview_status.ok()) preview_status = draw(preview(100));
    progress.reset();
    if (prints_epoch(out, e.epoch, o.training.epochs))
      fmt::print(stderr,
                 "epoch {}/{} | discriminator {:.3f} | generator {:.3f} | real {:.2f} | generated {:.2f}\n",
                 e.epoch, o.training.epochs, e.discriminator_loss, e.generator_loss, e.real, e.generated);
  });
  progress.reset();
  if (!gan.ok()) return report(gan.error());
  const auto samples = gan->sample(100, static_cast<uint64_t>(o.training.seed), **compute);
  Status written = gan->save(out.folder);
  if (written.ok()) written = write_file(out.folder + "/loss.svg", losses_of(*gan));
  if (written.ok()) written = draw(samples);
  if (!written.ok()) return report(written.error());
  print_result(out, data->count, gan->epochs().back());
  return 0;
}

}  // namespace makar
