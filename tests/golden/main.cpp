// The golden runner: every fixture of a folder, one line each, and a count.
//   golden [FOLDER] [--device cpu|fence|cuda] [--bf16]
// The folder may also come from MAKAR_GOLDEN, the device from MAKAR_DEVICE, the number of threads from
// MAKAR_THREADS.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "golden/golden.h"
#include "kernels/device.h"

int main(int argc, char** argv) {
  using namespace makar;
  const auto setting = [](const char* name, const char* fallback) {
    const char* value = std::getenv(name);
    return std::string(value ? value : fallback);
  };
  std::string root = setting("MAKAR_GOLDEN", "tests/golden"), device_name = setting("MAKAR_DEVICE", "cpu");
  DType type = DType::kF32;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--device" && i + 1 < argc)
      device_name = argv[++i];
    else if (std::string(argv[i]) == "--bf16")
      type = DType::kBF16;
    else
      root = argv[i];
  }
  if (!std::filesystem::is_directory(root)) {
    fmt::print(stderr, "golden: {} is not a folder\n", root);
    return 2;
  }
  // The fence device changes page protection, which is slower with several threads.
  const auto opened =
      open_device(device_name, device_name == "fence" ? 1 : std::atoi(setting("MAKAR_THREADS", "0").c_str()));
  if (!opened.ok()) {
    fmt::print(stderr, "golden: {}\n", opened.error().text());
    return 2;
  }
  Device& device = **opened;
  std::vector<golden::GoldenLine> lines = golden::run_models(root, device, type);
  const bool all_fixtures = type == DType::kF32;
  if (all_fixtures && std::filesystem::is_directory(root + "/components"))
    for (auto& l : golden::run_components(root, device)) lines.push_back(l);
  if (all_fixtures && std::filesystem::exists(root + "/preference/ppo.json"))
    for (auto& l : golden::run_ppo(root, device)) lines.push_back(l);
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
