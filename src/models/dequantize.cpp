#include "models/dequantize.h"

#include "kernels/decode_blocks.h"

namespace makar {

Tensor dequantized(const Tensor& t) {
  if (!is_block(t.dtype())) return t.to(DType::kF32);
  Tensor out = Tensor::empty(t.shape());
  kernels::decode_blocks(t.dtype(), t.raw(), t.count(), out.f32());
  return out;
}

}  // namespace makar
