// Small parallel regions: our pool against OpenMP, in one run.
//   bench_regions [--json] [--threads N] [--rounds N] [--patience S]
// `empty`: a region of one chunk a thread that does nothing. `work N`: chunks of about N microseconds each.
// `gap N`: empty regions with N microseconds of serial work between them.
#include <omp.h>

#include <cstdio>
#include <string>

#include "base/thread_pool.h"
#include "bench/timing.h"

using namespace makar;

namespace {

void busy(double us) {
  const double end = bench::seconds() + us * 1e-6;
  while (bench::seconds() < end) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  int threads = 0, rounds = 15;
  double patience = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--json") json = true;
    else if (arg == "--threads" && i + 1 < argc) threads = std::stoi(argv[++i]);
    else if (arg == "--rounds" && i + 1 < argc) rounds = std::stoi(argv[++i]);
    else if (arg == "--patience" && i + 1 < argc) patience = std::stod(argv[++i]);
    else return std::fprintf(stderr, "bench_regions [--json] [--threads N] [--rounds N] [--patience S]\n"), 2;
  }
  ThreadPool pool(threads);
  const int n = pool.threads();
  omp_set_num_threads(n);
  struct Case { const char* name; double work, gap; };
  for (const Case c : {Case{"empty", 0, 0}, {"work 2", 2, 0}, {"work 10", 10, 0}, {"gap 5", 0, 5}, {"gap 50", 0, 50},
                       {"gap 500", 0, 500}}) {
    const auto times = bench::interleave(
        {[&] {
           pool.run(n, [&](int64_t) { if (c.work > 0) busy(c.work); });
           if (c.gap > 0) busy(c.gap);
         },
         [&] {
#pragma omp parallel for schedule(dynamic, 1)
           for (int i = 0; i < n; ++i)
             if (c.work > 0) busy(c.work);
           if (c.gap > 0) busy(c.gap);
         }},
        rounds, 0.02, patience);
    const double ours = bench::median(times[0].each) * 1e6, theirs = bench::median(times[1].each) * 1e6;
    const double spread = bench::spread(times[0].each) + bench::spread(times[1].each);
    if (json)
      std::printf("{\"bench\":\"regions\",\"case\":\"%s\",\"threads\":%d,\"ours\":%.2f,\"peer\":\"openmp\",\"theirs\":%.2f,"
                  "\"unit\":\"us\",\"ratio\":%.3f,\"spread\":%.3f}\n", c.name, n, ours, theirs, theirs / ours, spread);
    else std::printf("%-8s %d threads: ours %.2f us, OpenMP %.2f us (ratio %.2f)%s\n", c.name, n, ours, theirs, theirs / ours,
                     times[0].quiet && times[1].quiet ? "" : " disturbed");
  }
}
