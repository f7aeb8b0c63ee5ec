// makar doctor: the hardware of this machine, its measured speed, and which models run well on it.
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/version.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "kernels/cpu_device.h"
#include "kernels/cuda_device.h"

namespace makar {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kReadingTokensPerSecond = 5;  // of a person

// The name of the processor, from /proc/cpuinfo; on ARM, which has no name there, implementer and part.
std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string implementer, part;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) part = value;
  }
  return implementer.empty() ? "unknown" : fmt::format("ARM implementer {}, part {}", implementer, part);
}

int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;)
    if (word == "MemAvailable:") {
      int64_t kilobytes = 0;
      return in >> kilobytes ? kilobytes * 1024 : 0;
    }
  return 0;
}

struct ModelSize {
  const char* name;
  double parameters;
};
constexpr ModelSize kSizes[] = {{"135M", 135e6}, {"0.5B", 0.5e9}, {"1B", 1.1e9},   {"3B", 3.2e9},
                                {"8B", 8e9},     {"14B", 14.8e9}, {"32B", 32.8e9}, {"70B", 70.6e9}};
constexpr double kQ4BytesPerParameter = 4.85 / 8, kQ8BytesPerParameter = 8.5 / 8;  // Q4_K_M, Q8_0
constexpr double kMemoryFactor = 1.15;  // the cache and scratch buffers are estimated as 15 % of the weights

// The speed of decoding, which reads all weights once per token and is limited by memory bandwidth.
std::string speed_text(double bytes, double memory, double bandwidth) {
  if (bytes * kMemoryFactor > memory) return "does not fit";
  const double rate = bandwidth / bytes;
  return fmt::format("{:.3g} tok/s{}", rate, rate < kReadingTokensPerSecond ? ", slow" : "");
}

}  // namespace

int run_doctor(const std::vector<std::string>& arguments) {
  bool json = false;
  int64_t threads = 0;
  Options options(
      "doctor",
      "Show the hardware of this machine (processor, memory, GPU), measure its speed, and estimate which "
      "models run well. The estimates assume that decoding is limited by memory bandwidth; makar bench "
      "measures a model.",
      "makar doctor");
  options.add("--json", &json, "print one JSON object");
  options.add("-t --threads", &threads, "number of threads; 0: one per core", "N");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (threads < 0 || threads > 4096)
    return report(error_at("--threads", "must be 0 to 4096, got {}", threads)), 2;

  utsname system = {};
  uname(&system);
  struct sysinfo info = {};
  sysinfo(&info);
  const double memory = static_cast<double>(info.totalram) * info.mem_unit;
  const auto available = static_cast<double>(available_memory());
  CpuDevice cpu(static_cast<int>(threads));
  const MachineLimits limits = cpu.measure_limits();
  const auto gpu = open_cuda_device();
  const auto models_folder = model_folder();
  const std::string models = models_folder.ok() ? *models_folder : ".";
  struct statvfs disk = {};
  std::filesystem::path folder = models;
  while (!folder.empty() && statvfs(folder.c_str(), &disk) != 0 && folder != folder.parent_path())
    folder = folder.parent_path();
  const double free_disk = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);

  if (json) {
    Json sizes = Json::array();
    for (const ModelSize& size : kSizes)
      for (const auto& [type, bytes] :
           {std::pair{"Q4_K_M", kQ4BytesPerParameter}, std::pair{"Q8_0", kQ8BytesPerParameter}})
        sizes.push_back({{"parameters", size.parameters},
                         {"type", type},
                         {"fits", size.parameters * bytes * kMemoryFactor <= memory},
                         {"tokens_per_second_limit", limits.bytes_per_second / (size.parameters * bytes)}});
    fmt::print("{}\n", Json{{"version", kMakarVersion},
                            {"system", fmt::format("{} {}", system.sysname, system.release)},
                            {"architecture", system.machine},
                            {"processor", processor_name()},
                            {"instructions", cpu.instructions()},
                            {"threads", cpu.threads()},
                            {"memory_bytes", memory},
                            {"available_bytes", available},
                            {"bytes_per_second", limits.bytes_per_second},
                            {"f32_operations_per_second", limits.f32_operations_per_second},
                            {"int8_operations_per_second", limits.int8_operations_per_second},
                            {"cuda", gpu.ok() ? Json(true) : Json(gpu.error().message)},
                            {"models_folder", models},
                            {"models_free_bytes", free_disk},
                            {"models", sizes}}
                           .dump());
    return 0;
  }
  fmt::print("makar {} on {} {} ({})\n\n", kMakarVersion, system.sysname, system.release, system.machine);
  fmt::print("Processor     {}\n", processor_name());
  fmt::print("Instructions  {}\n", fmt::join(cpu.instructions(), ", "));
  fmt::print("Threads       {}\n", cpu.threads());
  fmt::print("Memory        {:.1f} GiB, {:.1f} GiB available\n", memory / kGiB, available / kGiB);
  fmt::print("GPU           {}\n", gpu.ok() ? "CUDA: --device cuda works" : gpu.error().message);
  fmt::print("Models        {}, {:.1f} GiB free\n", models, free_disk / kGiB);
  fmt::print("\nMeasured with {} threads\n", cpu.threads());
  fmt::print("  memory      {:.1f} GB/s\n  f32         {:.0f} Gflop/s\n", limits.bytes_per_second / 1e9,
             limits.f32_operations_per_second / 1e9);
  if (limits.int8_operations_per_second > 0)
    fmt::print("  int8        {:.0f} Gop/s\n", limits.int8_operations_per_second / 1e9);
  fmt::print("\nDecoding one sequence on the CPU: upper limit by memory bandwidth\n");
  fmt::print("  parameters  {:<24}{}\n", "Q4_K_M", "Q8_0");
  for (const ModelSize& size : kSizes)
    fmt::print("  {:<12}{:<24}{}\n", size.name,
               speed_text(size.parameters * kQ4BytesPerParameter, memory, limits.bytes_per_second),
               speed_text(size.parameters * kQ8BytesPerParameter, memory, limits.bytes_per_second));
  return 0;
}

}  // namespace makar
