// Shared by the kernel benchmarks: their options, and one line of results.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "bench/timing.h"

namespace makar::bench {

struct RunOptions {
  bool json = false;
  int64_t threads = 0, rounds = 9;
  double batch_ms = 10, patience = 0;
  std::string only;

  bool wants(const std::string& name) const { return name.find(only) != std::string::npos; }
  // With one thread, CPU time is measured.
  std::vector<Times> time(const std::vector<std::function<void()>>& calls, int pool_threads) const {
    return interleave(calls, static_cast<int>(rounds), batch_ms * 1e-3, patience, pool_threads == 1);
  }
};

// Parses the command line into `o`; returns the exit code when there is nothing to run.
inline std::optional<int> parse(RunOptions& o, const std::string& program, const std::string& summary,
                                int argc, char** argv) {
  Options options(program, summary, program + " --threads 1 --only 5632x2048");
  options.add("--json", &o.json, "one JSON object per case");
  options.add("--threads", &o.threads, "threads; 0 means all cores", "N");
  options.add("--rounds", &o.rounds, "rounds of each case", "N");
  options.add("--batch-ms", &o.batch_ms, "milliseconds per round", "N");
  options.add("--patience", &o.patience, "seconds a case may wait for an idle machine", "S");
  options.add("--only", &o.only, "only cases whose name contains TEXT", "TEXT");
  const Status parsed = options.parse({argv + 1, argv + argc});
  if (parsed.ok() && options.help_requested()) return fmt::print("{}", options.help()), 0;
  if (!parsed.ok()) return fmt::print(stderr, "{}\n", parsed.error().text()), 2;
  o.rounds = std::max<int64_t>(1, o.rounds);
  return std::nullopt;
}

// One case against one peer. Rates: more is better.
struct Line {
  std::string bench, name, peer, unit;
  int threads = 1;
  double makar_value = 0, peer_value = 0, spread = 0;
  bool quiet = true;

  double ratio() const { return makar_value / peer_value; }
  void print_json() const {
    fmt::print(
        "{{\"bench\":\"{}\",\"case\":\"{}\",\"threads\":{},\"makar_value\":{:.2f},\"peer\":\"{}\",\"peer_"
        "value\":{:.2f},"
        "\"unit\":\"{}\",\"ratio\":{:.3f},\"spread\":{:.3f},\"quiet\":{}}}\n",
        bench, name, threads, makar_value, peer, peer_value, unit, ratio(), spread, quiet);
  }
};

}  // namespace makar::bench
