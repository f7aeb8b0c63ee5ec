// Small parallel regions: makar's thread pool against OpenMP, in one run.
//   bench_regions [--json] [--threads N] [--rounds N] [--patience S]
// `empty`: a region of one empty chunk per thread. `work N`: chunks of about N microseconds each.
// `gap N`: empty regions with N microseconds of serial work in between.
// `product M`: the same tiles of M x 384 x 384 scheduled by both.
#include <omp.h>

#include <cstdio>
#include <string>

#include "base/thread_pool.h"
#include "bench/timing.h"
#include "kernels/cpu/table.h"

using namespace makar;

namespace {

void busy(double us) {
  const double end = bench::seconds() + us * 1e-6;
  while (bench::seconds() < end) {
  }
}

void report(const std::string& name, int threads, const std::vector<bench::Times>& times, bool json) {
  const double makar_value = bench::median(times[0].seconds_per_call) * 1e6,
               peer_value = bench::median(times[1].seconds_per_call) * 1e6;
  const double spread = bench::spread(times[0].seconds_per_call) + bench::spread(times[1].seconds_per_call);
  const bool quiet = times[0].quiet && times[1].quiet;
  if (json)
    std::printf(
        "{\"bench\":\"regions\",\"case\":\"%s\",\"threads\":%d,\"makar_value\":%.2f,\"peer\":\"openmp\","
        "\"peer_value\":%.2f,"
        "\"unit\":\"us\",\"ratio\":%.3f,\"spread\":%.3f,\"quiet\":%s}\n",
        name.c_str(), threads, makar_value, peer_value, peer_value / makar_value, spread,
        quiet ? "true" : "false");
  else
    std::printf("%-12s %d threads: makar %.2f us, OpenMP %.2f us (ratio %.2f)%s\n", name.c_str(), threads,
                makar_value, peer_value, peer_value / makar_value, quiet ? "" : " disturbed");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  int threads = 0, rounds = 15;
  double patience = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--json")
      json = true;
    else if (arg == "--threads" && i + 1 < argc)
      threads = std::stoi(argv[++i]);
    else if (arg == "--rounds" && i + 1 < argc)
      rounds = std::stoi(argv[++i]);
    else if (arg == "--patience" && i + 1 < argc)
      patience = std::stod(argv[++i]);
    else
      return std::fprintf(stderr, "bench_regions [--json] [--threads N] [--rounds N] [--patience S]\n"), 2;
  }
  ThreadPool pool(threads);
  const int n = pool.threads();
  omp_set_num_threads(n);
  // Runs `body` over `count` chunks with the pool and with OpenMP.
  const auto compare = [&](const std::string& name, int count, double gap, const auto& body) {
    const auto with_pool = [&] {
      pool.run(count, body);
      if (gap > 0) busy(gap);
    };
    const auto with_openmp = [&] {
#pragma omp parallel for schedule(dynamic, 1)
      for (int i = 0; i < count; ++i) body(i);
      if (gap > 0) busy(gap);
    };
    report(name, n, bench::interleave({with_pool, with_openmp}, rounds, 0.02, patience), json);
  };
  compare("empty", n, 0, [](int64_t) {});
  for (const double us : {2, 10})
    compare("work " + std::to_string(int(us)), n, 0, [us](int64_t) { busy(us); });
  for (const double us : {5, 50, 500}) compare("gap " + std::to_string(int(us)), n, us, [](int64_t) {});
  const kernels::Table& t = kernels::cpu();
  constexpr int64_t kSize = 384, kChunk = 96;  // a multiple of every nr
  for (const int64_t m : {1, 8, 64}) {
    std::vector<float> a((m + t.mr) * kSize, 1.0f), b((kSize + t.nr) * kSize, 1.0f), c(m * kSize);
    compare("product " + std::to_string(m), kSize / kChunk, 0, [&](int64_t i) {
      if (m == 1)
        t.rows(DType::kF32, 1, kChunk, kSize, a.data(), kSize, b.data() + i * kChunk * kSize, kSize * t.nr,
               c.data() + i * kChunk, kSize, false);
      else
        t.product(m, kChunk, kSize, a.data(), b.data() + i * kChunk * kSize, c.data() + i * kChunk, kSize,
                  false);
    });
  }
}
