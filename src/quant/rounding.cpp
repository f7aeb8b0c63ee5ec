#include "quant/rounding.h"

#include <map>

#include "base/nearest.h"
#include "models/dequantize.h"
#include "quant/encode.h"
#include "quant/mix.h"

namespace makar {
namespace {

constexpr std::pair<const char*, DType> kRoundings[] = {
    {"q8_0", DType::kQ8_0}, {"q4_0", DType::kQ4_0},   {"q4_1", DType::kQ4_1},   {"q5_0", DType::kQ5_0},
    {"q5_1", DType::kQ5_1}, {"q4_k_s", DType::kQ4_K}, {"q5_k_s", DType::kQ5_K}, {"q6_k", DType::kQ6_K}};

}  // namespace

Result<DType> rounding_type(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [known_name, type] : kRoundings) {
    if (name == known_name) return type;
    known.emplace_back(known_name);
  }
  return error_at("qat", "unknown type '{}'{}; expected one of {}", name, did_you_mean(name, known),
                  fmt::join(known, ", "));
}

std::function<Tensor(const Parameter&)> rounding_of(Model& model, DType type, ThreadPool& pool) {
  std::map<const Parameter*, DType> types;
  model.each_linear([&](const std::string& name, Linear& linear) {
    if (!name.ends_with(".router")) types[linear.weight()] = type_that_fits(type, linear.in());
  });
  for (const auto& p : model.parameters().all())
    if (p->name.ends_with(".embed.tokens.weight") && p->shape.rank() == 2)
      types[p.get()] = type_that_fits(type, p->shape[1]);
  const bool output_in_q6_k = type != DType::kQ8_0;
  for (const Parameter* p : model.output_weights())
    if (output_in_q6_k && types.contains(p)) types[p] = type_that_fits(DType::kQ6_K, p->shape[1]);
  return [types = std::move(types), &pool](const Parameter& p) -> Tensor {
    const auto at = types.find(&p);
    if (at == types.end()) return {};
    return dequantized(encode(pool, p.value.host().to(DType::kF32), at->second));
  };
}

}  // namespace makar
