#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {

const Table& table() {
  static const Table t = [] {
    Table result;
    result.isa = MAKAR_ISA_NAME;
    fill_gemm(result);
    fill_elementwise(result);
    fill_norm(result);
    fill_softmax(result);
    fill_rope(result);
    fill_update(result);
    fill_attention(result);
    fill_pack(result);
    fill_product_bf16(result);
    fill_quant(result);
    fill_quant_rows(result);
    fill_quant_eight(result);
    fill_quant_peak(result);
    fill_limits(result);
    fill_scan(result);
    return result;
  }();
  return t;
}

}  // namespace makar::kernels::MAKAR_ISA
