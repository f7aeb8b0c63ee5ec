#include "golden/fixture.h"

#include <cmath>
#include <limits>

namespace makar::golden {

Result<Fixture> Fixture::open(const std::string& stem) {
  Fixture f;
  MAKAR_TRY(f.tensors_, Safetensors::open(stem + ".safetensors"));
  MAKAR_TRY(f.json_, read_json(stem + ".json"));
  return f;
}

Tensor Fixture::get(const std::string& name) const { return tensors_->tensor(name).value().clone(); }

Tensor Fixture::on(Device& device, const std::string& name) const { return get(name).to(device.memory()); }

double relative_error(const Tensor& computed, const Tensor& expected) {
  const Tensor got = computed.defined() ? computed.host() : computed;
  if (!got.defined() || got.count() != expected.count()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double d = static_cast<double>(got.f32()[i]) - expected.f32()[i];
    difference += d * d, norm += static_cast<double>(expected.f32()[i]) * expected.f32()[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

double relative_error(double got, double expected) {
  return std::fabs(got - expected) / (expected != 0 ? std::fabs(expected) : 1.0);
}

GoldenLine measure(const std::string& name, double limit, const std::function<double()>& body) {
  try {
    return line(name, body(), limit);
  } catch (const std::exception& e) {
    return line(name, std::numeric_limits<double>::quiet_NaN(), limit, e.what());
  }
}

}  // namespace makar::golden
