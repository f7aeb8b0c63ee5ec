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

struct MachineReport {
  std::string system, architecture, processor;
  std::vector<std::string> instructions;
  std::string instructions_in_use;
  int threads = 0;
  double memory = 0, available = 0;  // bytes
  MachineLimits limits;              // measured
  std::string gpu_error;             // empty: CUDA works
  std::string models_folder;
  double models_free_bytes = 0;
};

// The free bytes of the disk of a folder, or of its closest parent that exists.
double free_disk_bytes(std::filesystem::path folder) {
  struct statvfs disk = {};
  while (!folder.empty() && statvfs(folder.c_str(), &disk) != 0 && folder != folder.parent_path())
    folder = folder.parent_path();
  return static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
}

MachineReport examine_machine(int threads) {
  MachineReport out;
  utsname system = {};
  uname(&system);
  out.system = fmt::format("{} {}", system.sysname, system.release), out.architecture = system.machine;
  struct sysinfo info = {};
  sysinfo(&info);
  out.memory = static_cast<double>(info.totalram) * info.mem_unit;
  out.available = static_cast<double>(available_memory());
  CpuDevice cpu(threads);
  out.processor = processor_name(), out.instructions = cpu.instructions(), out.threads = cpu.threads();
  out.instructions_in_use = cpu.instructions_in_use().value();  // main() has checked it
  out.limits = cpu.measure_limits();
  if (const auto gpu = open_cuda_device(); !gpu.ok()) out.gpu_error = gpu.error().message;
  const auto folder = model_folder();
  out.models_folder = folder.ok() ? *folder : ".";
  out.models_free_bytes = free_disk_bytes(out.models_folder);
  return out;
}

void print_machine_json(const MachineReport& m) {
  Json sizes = Json::array();
  for (const ModelSize& size : kSizes)
    for (const auto& [type, bytes] :
         {std::pair{"Q4_K_M", kQ4BytesPerParameter}, std::pair{"Q8_0", kQ8BytesPerParameter}})
      sizes.push_back({{"parameters", size.parameters},
                       {"type", type},
                       {"fits", size.parameters * bytes * kMemoryFactor <= m.memory},
                       {"tokens_per_second_limit", m.limits.bytes_per_second / (size.parameters * bytes)}});
  fmt::print("{}\n", Json{{"version", kMakarVersion},
                          {"system", m.system},
                          {"architecture", m.architecture},
                          {"processor", m.processor},
                          {"instructions", m.instructions},
                          {"instructions_in_use", m.instructions_in_use},
                          {"threads", m.threads},
                          {"memory_bytes", m.memory},
                          {"available_bytes", m.available},
                          {"bytes_per_second", m.limits.bytes_per_second},
                          {"f32_operations_per_second", m.limits.f32_operations_per_second},
                          {"int8_operations_per_second", m.limits.int8_operations_per_second},
                          {"cuda", m.gpu_error.empty() ? Json(true) : Json(m.gpu_error)},
                          {"models_folder", m.models_folder},
                          {"models_free_bytes", m.models_free_bytes},
                          {"models", sizes}}
                         .dump());
}

void print_machine(const MachineReport& m) {
  fmt::print("makar {} on {} ({})\n\n", kMakarVersion, m.system, m.architecture);
  fmt::print("Processor     {}\n", m.processor);
  fmt::print("Instructions  {} (in use: {})\n", fmt::join(m.instructions, ", "), m.instructions_in_use);
  fmt::print("Threads       {}\n", m.threads);
  fmt::print("Memory        {:.1f} GiB, {:.1f} GiB available\n", m.memory / kGiB, m.available / kGiB);
  fmt::print("GPU           {}\n", m.gpu_error.empty() ? "CUDA: --device cuda works" : m.gpu_error);
  fmt::print("Models        {}, {:.1f} GiB free\n", m.models_folder, m.models_free_bytes / kGiB);
  fmt::print("\nMeasured with {} threads\n", m.threads);
  fmt::print("  memory      {:.1f} GB/s\n  f32         {:.0f} Gflop/s\n", m.limits.bytes_per_second / 1e9,
             m.limits.f32_operations_per_second / 1e9);
  if (m.limits.int8_operations_per_second > 0)
    fmt::print("  int8        {:.0f} Gop/s\n", m.limits.int8_operations_per_second / 1e9);
  fmt::print("\nDecoding one sequence on the CPU: upper limit by memory bandwidth\n");
  fmt::print("  parameters  {:<24}{}\n", "Q4_K_M", "Q8_0");
  for (const ModelSize& size : kSizes)
    fmt::print("  {:<12}{:<24}{}\n", size.name,
               speed_text(size.parameters * kQ4BytesPerParameter, m.memory, m.limits.bytes_per_second),
               speed_text(size.parameters * kQ8BytesPerParameter, m.memory, m.limits.bytes_per_second));
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
  const MachineReport machine = examine_machine(static_cast<int>(threads));
  if (json)
    print_machine_json(machine);
  else
    print_machine(machine);
  return 0;
}

}  // namespace makar
