#include "kernels/cpu/isa/sections.h"

#define MAKAR_TEXT2(x) #x
#define MAKAR_TEXT(x) MAKAR_TEXT2(x)

namespace makar::kernels::MAKAR_ISA {

const Table& table() {
  static const Table t = [] {
    Table made;
    made.isa = MAKAR_TEXT(MAKAR_ISA);
    fill_gemm(made);
    fill_elementwise(made);
    fill_norm(made);
    fill_softmax(made);
    fill_rope(made);
    fill_update(made);
    fill_attention(made);
    fill_pack(made);
    fill_quant(made);
    fill_quant_rows(made);
    fill_quant_eight(made);
    fill_quant_peak(made);
    fill_limits(made);
    fill_scan(made);
    return made;
  }();
  return t;
}

}  // namespace makar::kernels::MAKAR_ISA
