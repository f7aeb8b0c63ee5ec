#include "quant/in_memory.h"

#include "base/nearest.h"
#include "quant/encode.h"
#include "quant/mix.h"

namespace makar {
namespace {

Result<DType> block_type(const std::string& text) {
  std::vector<std::string> known;
  for (size_t i = 0; i < std::size(kTypeLayouts); ++i) {
    const auto type = static_cast<DType>(i);
    if (!is_block(type) || !can_encode(type) || type == DType::kQ8_24) continue;
    if (text == name(type)) return type;
    known.push_back(name(type));
  }
  return error_at("quantize_base", "unknown type '{}'{}; expected one of {}", text, did_you_mean(text, known),
                  fmt::join(known, ", "));
}

bool is_in_block(const std::string& name) {
  return name.find(".layers.") != std::string::npos && !name.ends_with(".router");
}

}  // namespace

Status quantize_in_memory(Model& model, const std::string& type, ThreadPool& pool) {
  MAKAR_TRY(const DType target_type, block_type(type));
  model.each_linear([&](const std::string& name, Linear& linear) {
    Tensor& w = linear.weight()->value;
    if (!is_in_block(name) || is_block(w.dtype())) return;
    w = encode(pool, w.host().to(DType::kF32), type_that_fits(target_type, w.dim(1)));
    linear.unpack();
  });
  return Done{};
}

}  // namespace makar
