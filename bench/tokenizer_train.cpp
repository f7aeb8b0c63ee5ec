// Training speed beside SentencePiece's spm_train, round by round in the same run; one JSON object a line.
//   bench_tokenizer_train TEXT [--threads N] [--rounds N]
// Both sides start from the file; ours is timed in this process, the peer as a program. Left out where
// spm_train is not installed (Debian package sentencepiece).
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "bench/timing.h"
#include "text/train/train.h"

namespace {

using makar::Json;
using makar::bench::seconds;
using Model = makar::TrainSettings::Model;

struct Case {
  const char* name;
  Model model;
  const char* pipeline;
  size_t vocab;
  const char* peer_type;  // of spm_train
};

constexpr Case kCases[] = {
    {"bpe 8k", Model::kBpe, "byte-level", 8000, "bpe"},
    {"bpe 30k", Model::kBpe, "byte-level", 30000, "bpe"},
    {"unigram 8k", Model::kUnigram, "metaspace", 8000, "unigram"},
};

double train(const Case& c, const std::string& path, int threads) {
  const double begin = seconds();
  makar::TrainSettings s;
  s.model = c.model;
  s.vocab_size = c.vocab;
  s.special_tokens = {"<unk>", "<s>", "</s>"};
  s.pipeline = *makar::TrainPipeline::named(c.pipeline, s.special_tokens);
  makar::CorpusOptions options;
  options.paths = {path};
  auto corpus = makar::Corpus::open(options);
  makar::ThreadPool pool(threads);
  if (!corpus.ok() || !makar::train_tokenizer(*corpus, s, pool).ok()) std::exit(1);
  return seconds() - begin;
}

double train_peer(const Case& c, const std::string& path, int threads) {
  const std::string prefix = (std::filesystem::temp_directory_path() / "makar_bench_spm").string();
  const std::string command = fmt::format(
      "spm_train --input='{}' --model_prefix='{}' --vocab_size={} --model_type={} --num_threads={} "
      "--minloglevel=2 >/dev/null 2>&1",
      path, prefix, c.vocab, c.peer_type, threads);
  const double begin = seconds();
  if (std::system(command.c_str()) != 0) return 0;
  return seconds() - begin;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s TEXT [--threads N] [--rounds N]\n", argv[0]), 2;
  int threads = 2, rounds = 3;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--threads")) threads = std::max(1, std::atoi(argv[i + 1]));
    if (!std::strcmp(argv[i], "--rounds")) rounds = std::max(1, std::atoi(argv[i + 1]));
  }
  const bool peer = std::system("command -v spm_train >/dev/null 2>&1") == 0;
  for (const Case& c : kCases) {
    std::vector<double> ours, theirs;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(train(c, argv[1], threads));
      if (peer)
        if (const double t = train_peer(c, argv[1], threads); t > 0) theirs.push_back(t);
    }
    const double mine = makar::bench::median(ours), other = theirs.empty() ? 0 : makar::bench::median(theirs);
    const Json line = {{"bench", "tokenizer_train"},
                       {"case", c.name},
                       {"threads", threads},
                       {"ours", mine},
                       {"peer", "spm_train"},
                       {"theirs", other},
                       {"unit", "s"},
                       {"ratio", other / mine},
                       {"spread", makar::bench::spread(ours)}};
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  }
  return 0;
}
