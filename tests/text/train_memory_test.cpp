// The memory limit of the trainers: a corpus whose words do not fit, trained in a child process whose peak is
// measured.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "sanitized.h"
#include "text/train/train.h"

namespace makar {
namespace {

using test::kSanitized;  // the sanitizer's memory counts too

// Words of which about `distinct` are different, with counts from 1 to thousands.
std::string corpus(size_t words, size_t distinct) {
  const auto path =
      std::filesystem::temp_directory_path() / ("makar_train_memory_" + std::to_string(::getpid()));
  std::ofstream file(path, std::ios::binary);
  uint64_t x = 88172645463325252u;
  for (size_t i = 0; i < words; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    uint64_t rank = i % 2 == 0 ? i / 2 % distinct : (x % distinct) * (x >> 40 & 255) / 256;
    for (rank += 37; rank; rank /= 17) file.put(static_cast<char>('a' + rank % 17));
    file.put(i % 12 == 11 ? '\n' : ' ');
  }
  return path.string();
}

struct Outcome {
  std::string tokenizer;
  size_t runs = 0, dropped = 0;
  double peak_mib = 0;
};

// In a child process, so that the measured peak belongs to this training. The child starts with the memory of
// the parent.
Outcome train_in_child(const std::string& path, TrainSettings::Model model, size_t max_memory) {
  const std::string out = path + ".out";
  const pid_t child = fork();
  if (child == 0) {
    TrainSettings s;
    s.model = model;
    s.vocab_size = 2000;
    s.pipeline =
        *TrainPipeline::named(model == TrainSettings::Model::kUnigram ? "metaspace" : "byte-level", {});
    s.max_memory = max_memory;
    CorpusOptions options;
    options.paths = {path};
    auto opened = Corpus::open(options);
    ThreadPool pool(4);
    const auto report = opened.ok() ? train_tokenizer(*opened, s, pool) : Result<TrainReport>(opened.error());
    if (!report.ok()) _exit(3);
    std::ofstream(out) << report->runs << "\n" << report->dropped_words << "\n" << report->tokenizer.dump();
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  Outcome outcome;
  EXPECT_EQ(status, 0);
  std::ifstream in(out);
  in >> outcome.runs >> outcome.dropped >> outcome.tokenizer;
  std::filesystem::remove(out);
  outcome.peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  return outcome;
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

Outcome train_within(const std::string& path, TrainSettings::Model model, size_t mib) {
  const double before = resident_mib();
  const Outcome outcome = train_in_child(path, model, mib << 20);
  std::printf("bound %zu MiB: peak %.0f MiB (%.0f of them before), %zu runs on disk, %zu words dropped\n",
              mib, outcome.peak_mib, before, outcome.runs, outcome.dropped);
  if (!kSanitized) EXPECT_LT(outcome.peak_mib, static_cast<double>(mib) + before);
  return outcome;
}

constexpr size_t kTightMib = 64, kPlentyMib = 4096;

TEST(TrainMemory, SpillingGivesTheSameVocabulary) {
  const std::string path = corpus(1'000'000, 120'000);
  const Outcome unlimited = train_within(path, TrainSettings::Model::kBpe, kPlentyMib);
  const Outcome tight = train_within(path, TrainSettings::Model::kBpe, kTightMib);
  EXPECT_EQ(unlimited.runs, 0u);
  EXPECT_GT(tight.runs, 0u);
  EXPECT_EQ(tight.dropped, 0u);
  EXPECT_EQ(tight.tokenizer, unlimited.tokenizer);
  std::filesystem::remove(path);
}

TEST(TrainMemory, WordsThatDoNotFitAreDropped) {
  const std::string path = corpus(1'200'000, 600'000);
  for (const auto model : {TrainSettings::Model::kBpe, TrainSettings::Model::kUnigram})
    EXPECT_GT(train_within(path, model, kTightMib).dropped, 0u);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace makar
