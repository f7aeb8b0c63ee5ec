// The golden runner: every fixture of a folder, a line each, and a count.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/thread_pool.h"
#include "golden/golden.h"

int main(int argc, char** argv) {
  using namespace makar;
  const char* set = std::getenv("MAKAR_GOLDEN");
  const std::string root = argc > 1 ? argv[1] : (set ? set : "tests/golden");
  if (!std::filesystem::is_directory(root)) {
    fmt::print(stderr, "golden: {} is not a folder\n", root);
    return 2;
  }
  ThreadPool pool;
  std::vector<golden::GoldenLine> lines = golden::run_models(root, pool);
  if (std::filesystem::is_directory(root + "/components"))
    for (auto& l : golden::run_components(root)) lines.push_back(l);
  if (std::filesystem::exists(root + "/preference/ppo.json"))
    for (auto& l : golden::run_ppo(root)) lines.push_back(l);
  int passed = 0, failed = 0, skips = 0;
  for (const auto& l : lines) {
    const bool skip = l.status == "skip";
    fmt::print("{}  {:<40} {}  {}\n", l.status, l.name, skip ? "        " : fmt::format("{:.1e}", l.worst),
               l.note);
    passed += l.status == "pass", failed += l.status == "fail", skips += skip;
  }
  fmt::print("{} passed, {} failed, {} skipped\n", passed, failed, skips);
  return failed == 0 && passed > 0 ? 0 : 1;
}
