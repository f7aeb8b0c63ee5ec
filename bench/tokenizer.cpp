// Tokenizer speed, one JSON object a line:
// {"bench","case","threads","ours","peer","theirs","unit","ratio","spread"}.
//   tokenizer TOKENIZER TEXT [--threads N] [--runs N] [--peer NAME --theirs MB_PER_S]
// "ours" is the median in MB/s of text; the peer's figure, measured in the same run, is given from outside.
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/file.h"
#include "base/json.h"
#include "base/thread_pool.h"

namespace {

using makar::Json;

// Lines of about a kilobyte: what a data loader hands over.
std::vector<std::string_view> chunks(const std::string& text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(at + 1024, text.size());
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
    out.push_back(std::string_view(text).substr(at, end - at));
    at = end;
  }
  return out;
}

// Processor time with MAKAR_BENCH_CPU set (for a busy machine, one thread only), else the clock on the wall.
double seconds() {
  static const bool cpu = std::getenv("MAKAR_BENCH_CPU") != nullptr;
  timespec now{};
  clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Times {
  std::vector<double> speeds;
  double median() {
    std::sort(speeds.begin(), speeds.end());
    return speeds[speeds.size() / 2];
  }
  double spread() { return (speeds.back() - speeds.front()) / median(); }
};

template <class F>
Times measure(size_t bytes, int runs, F f) {
  Times times;
  for (int i = 0; i < runs; ++i) {
    const double start = seconds();
    f();
    times.speeds.push_back(static_cast<double>(bytes) / 1e6 / (seconds() - start));
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    return std::fprintf(stderr,
                        "usage: %s TOKENIZER TEXT [--threads N] [--runs N] [--peer NAME --theirs MB_PER_S]\n",
                        argv[0]),
           2;
  int threads = 1, runs = 5;
  std::string peer;
  double theirs = 0;
  for (int i = 3; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--threads")) threads = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--runs")) runs = std::max(1, std::atoi(argv[i + 1]));
    if (!std::strcmp(argv[i], "--peer")) peer = argv[i + 1];
    if (!std::strcmp(argv[i], "--theirs")) theirs = std::atof(argv[i + 1]);
  }
  const auto load_start = std::chrono::steady_clock::now();
  const auto tokenizer = makar::Tokenizer::load(argv[1]);
  if (!tokenizer.ok()) return std::fprintf(stderr, "%s\n", tokenizer.error().text().c_str()), 1;
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - load_start;
  const auto text = makar::read_file(argv[2]);
  if (!text.ok()) return std::fprintf(stderr, "%s\n", text.error().text().c_str()), 1;

  makar::ThreadPool pool(threads);
  const auto parts = chunks(*text);
  size_t tokens = 0;
  const auto print = [&](const std::string& name, Times times) {
    Json line = {{"bench", "tokenizer"},
                 {"case", name},
                 {"threads", threads},
                 {"ours", times.median()},
                 {"peer", peer},
                 {"theirs", theirs},
                 {"unit", "MB/s"},
                 {"ratio", theirs > 0 ? times.median() / theirs : 0.0},
                 {"spread", times.spread()},
                 {"tokens", tokens},
                 {"load_s", load.count()}};
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  };
  makar::EncodeOptions options;
  options.offsets = false;
  if (threads == 1) {
    std::vector<uint32_t> ids;
    const auto whole = [&] {
      ids.clear();
      if (!tokenizer->append_ids(*text, options, ids).ok()) std::exit(1);
      tokens = ids.size();
    };
    print("whole text, ids", measure(text->size(), runs, whole));
    const auto each = [&] {
      ids.clear();
      for (const auto part : parts)
        if (!tokenizer->append_ids(part, options, ids).ok()) std::exit(1);
      tokens = ids.size();
    };
    print("1 KB parts, ids", measure(text->size(), runs, each));
  }
  options.offsets = true;
  const auto batch = [&] {
    tokens = 0;
    for (const auto& one : tokenizer->encode_batch(parts, options, pool))
      tokens += one.ok() ? one->size() : 0;
  };
  print("1 KB parts, batch with offsets", measure(text->size(), runs, batch));
  return 0;
}
