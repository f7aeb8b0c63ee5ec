// The table of an instruction set that only adds products of bytes: a copy of another set's table in which
// these products are replaced.
#include "kernels/cpu/isa/sections.h"

#define MAKAR_TEXT2(x) #x
#define MAKAR_TEXT(x) MAKAR_TEXT2(x)

namespace makar::kernels::MAKAR_ISA {

const Table& table(const Table& base) {
  static const Table t = [&] {
    Table result = base;
    result.isa = MAKAR_TEXT(MAKAR_ISA);
    fill_quant(result);
    fill_quant_rows(result);
    fill_quant_peak(result);
    return result;
  }();
  return t;
}

}  // namespace makar::kernels::MAKAR_ISA
