// makar net: networks on tables, autoencoders, generative adversarial networks and a feed-forward language
// model.
#include "cli/command.h"

namespace makar {

int run_net_tabular(const std::vector<std::string>&);
int run_net_run(const std::vector<std::string>&);
int run_net_sample(const std::vector<std::string>&);
int run_net_autoencoder(const std::vector<std::string>&);
int run_net_lm(const std::vector<std::string>&);
int run_net_gan(const std::vector<std::string>&);

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
