// Golden fixtures: one line per comparison, with its worst error. The runner prints the lines and
// counts.
#pragma once
#include <string>
#include <vector>

#include "kernels/device.h"

namespace makar::golden {

struct GoldenLine {
  std::string name;
  double worst = 0;
  double limit = 0;
  std::string status;  // pass, fail, skip
  std::string note;
};

// A line that passes when worst <= limit (a NaN fails).
inline GoldenLine line(std::string name, double worst, double limit, std::string note = "") {
  return {std::move(name), worst, limit, worst <= limit ? "pass" : "fail", std::move(note)};
}
inline GoldenLine skipped(std::string name, std::string note) {
  return {std::move(name), 0, 0, "skip", std::move(note)};
}

// Every fixture of <folder>/components: norms, activations, losses, attention, recurrent cells, convolution,
// optimisers, schedules.
std::vector<GoldenLine> run_components(const std::string& folder, Device& device);
// <folder>/preference/ppo.*.
std::vector<GoldenLine> run_ppo(const std::string& folder, Device& device);

// Every whole-model fixture of <folder>: models/, lora/, peft/, preference/dpo.
// With bf16 activations: losses, gradients and training, within wider limits.
std::vector<GoldenLine> run_models(const std::string& folder, Device& device, DType type = DType::kF32);

}  // namespace makar::golden
