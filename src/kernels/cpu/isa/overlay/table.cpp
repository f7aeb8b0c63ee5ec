// The table of an instruction set that has only 8-bit dot products more than another one: a copy of the other
// set's table in which the kernels of quantized weights are replaced.
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {

const Table& table(const Table& base) {
  static const Table t = [&] {
    Table result = base;
    result.isa = MAKAR_ISA_NAME;
    fill_quant(result);
    fill_quant_rows(result);
    fill_quant_peak(result);
    return result;
  }();
  return t;
}

}  // namespace makar::kernels::MAKAR_ISA
