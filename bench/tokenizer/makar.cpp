// makar's program of the tokenizer benchmark; all programs use the same protocol:
//   makar TOKENIZER TEXT THREADS
// prints {"ready"} with the seconds of loading; then each line on standard input starts one pass over the
// text, split into documents, and prints {"wall","cpu","tokens"}.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/thread_pool.h"
#include "bench/timing.h"
#include "bench/tokenizer/documents.h"
#include "text/tokenizer.h"

using namespace makar;

namespace {

// Only ids, as in the peers; each thread encodes its share of the documents.
size_t pass(const Tokenizer& tokenizer, const std::vector<std::string_view>& documents, ThreadPool& pool) {
  EncodeOptions options;
  options.special_text = SpecialText::kParse;
  const auto threads = static_cast<size_t>(pool.threads());
  std::vector<std::vector<uint32_t>> ids(threads);
  pool.for_ranges(pool.threads(), 1, [&](int64_t begin, int64_t end) {
    for (auto t = static_cast<size_t>(begin); t < static_cast<size_t>(end); ++t)
      for (size_t i = documents.size() * t / threads; i < documents.size() * (t + 1) / threads; ++i)
        if (!tokenizer.append_ids(documents[i], options, ids[t]).ok()) std::abort();
  });
  size_t tokens = 0;
  for (const auto& thread_ids : ids) tokens += thread_ids.size();
  return tokens;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: %s TOKENIZER TEXT THREADS\n", argv[0]), 2;
  const double start = bench::cpu_seconds();
  const auto tokenizer = Tokenizer::load(argv[1]);
  const double load = bench::cpu_seconds() - start;
  if (!tokenizer.ok()) return std::fprintf(stderr, "%s\n", tokenizer.error().text().c_str()), 1;
  const auto text = read_file(argv[2]);
  if (!text.ok()) return std::fprintf(stderr, "%s\n", text.error().text().c_str()), 1;
  const auto documents = bench::documents(*text);
  ThreadPool pool(std::atoi(argv[3]));
  const auto say = [](const std::string& line) { std::puts(line.c_str()), std::fflush(stdout); };
  say(fmt::format("{{\"ready\":{:.4f}}}", load));
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c != '\n') continue;
    const double wall = bench::seconds(), cpu = bench::cpu_seconds();
    const size_t tokens = pass(*tokenizer, documents, pool);
    say(fmt::format("{{\"wall\":{:.6f},\"cpu\":{:.6f},\"tokens\":{}}}", bench::seconds() - wall,
                    bench::cpu_seconds() - cpu, tokens));
  }
  return 0;
}
