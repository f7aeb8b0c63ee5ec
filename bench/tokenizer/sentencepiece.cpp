// SentencePiece's program of the tokenizer benchmark (its own C++ library); arguments and output as in
// makar.cpp.
#include <sentencepiece_processor.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "bench/timing.h"
#include "bench/tokenizer/documents.h"

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: %s MODEL TEXT THREADS\n", argv[0]), 2;
  const double start = makar::bench::cpu_seconds();
  sentencepiece::SentencePieceProcessor processor;
  if (!processor.Load(argv[1]).ok()) return std::fprintf(stderr, "%s cannot be read\n", argv[1]), 1;
  const double load = makar::bench::cpu_seconds() - start;
  std::ifstream file(argv[2], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto documents = makar::bench::documents(text);
  const auto threads = static_cast<size_t>(std::max(1, std::atoi(argv[3])));
  std::printf("{\"ready\":%.4f}\n", load), std::fflush(stdout);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c != '\n') continue;
    const double wall = makar::bench::seconds(), cpu = makar::bench::cpu_seconds();
    std::vector<size_t> tokens(threads);
    const auto share = [&](size_t t) {
      std::vector<int> ids;
      for (size_t i = documents.size() * t / threads; i < documents.size() * (t + 1) / threads; ++i) {
        processor.Encode({documents[i].data(), documents[i].size()}, &ids).IgnoreError();
        tokens[t] += ids.size();
      }
    };
    std::vector<std::thread> others;
    for (size_t t = 1; t < threads; ++t) others.emplace_back(share, t);
    share(0);
    for (auto& other : others) other.join();
    size_t sum = 0;
    for (const size_t n : tokens) sum += n;
    std::printf("{\"wall\":%.6f,\"cpu\":%.6f,\"tokens\":%zu}\n", makar::bench::seconds() - wall,
                makar::bench::cpu_seconds() - cpu, sum);
    std::fflush(stdout);
  }
  return 0;
}
