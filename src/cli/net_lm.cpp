// makar net lm: a feed-forward language model.
#include <fmt/format.h>

#include <cmath>

#include "cli/command.h"
#include "cli/net_data.h"
#include "cli/net_training.h"
#include "cli/run.h"
#include "nets/neural_lm.h"

namespace makar {

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
  options.add("--words", &o.max_words, "maximum vocabulary size in words", "N");
  declare_net_training(options, o.training, out);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status s = check(o.training); !s.ok()) return report(s.error()), 2;
  if (samples < 0 || samples > 1000)
    return report(error_at("--samples", "must be 0 to 1000, got {}", samples)), 2;
  const auto compute = open_device_option(out.device, out.threads);
  if (!compute.ok()) return report(compute.error());
  const auto sentences = read_sentences(paths);
  if (!sentences.ok()) return report(sentences.error());
  auto net = NeuralLm::train(*sentences, o, **compute, [&](const EpochResult& e) {
    if (prints_epoch(out, e.epoch, o.training.epochs))
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

}  // namespace makar
