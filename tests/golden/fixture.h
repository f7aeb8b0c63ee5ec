// One golden file pair (<name>.safetensors, <name>.json) and how values are compared.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/safetensors.h"
#include "golden/golden.h"
#include "tensor/tensor.h"

namespace makar::golden {

class Fixture {
 public:
  static Result<Fixture> open(const std::string& stem);

  bool has(const std::string& name) const { return tensors_->has(name); }
  const std::vector<std::string>& names() const { return tensors_->names(); }
  Tensor get(const std::string& name) const;                 // a copy; a missing tensor fails the line
  Tensor on(Device& device, const std::string& name) const;  // the same in the device's memory
  const Json& json() const { return json_; }

 private:
  std::shared_ptr<const Safetensors> tensors_;
  Json json_;
};

// |a - b| / |b| as norms of all values; infinity when the shapes differ.
double relative_error(const Tensor& got, const Tensor& expected);
double relative_error(double got, double expected);

// The line of `body`, which returns its worst error; an exception fails the line with its text.
GoldenLine measure(const std::string& name, double limit, const std::function<double()>& body);

constexpr double kValueLimit = 1e-5,
                 kGradientNormLimit = 1e-4;  // the limits in docs/design.md, numbers contract

// The parts of run_components, each appending its lines.
void add_rowwise(const Fixture& fixture, Device& device, std::vector<GoldenLine>& lines);
void add_recurrent(const Fixture& fixture, Device& device, std::vector<GoldenLine>& lines);
void add_optimisers(const Fixture& fixture, Device& device, std::vector<GoldenLine>& lines);
void add_schedules(const Fixture& fixture, std::vector<GoldenLine>& lines);
void add_logits_processors(const Fixture& fixture, std::vector<GoldenLine>& lines);

}  // namespace makar::golden
