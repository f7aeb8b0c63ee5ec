// The table of an instruction set that only adds products of bytes: another set's table with them replaced.
#include "kernels/cpu/isa/sections.h"

#define MAKAR_TEXT2(x) #x
#define MAKAR_TEXT(x) MAKAR_TEXT2(x)

namespace makar::kernels::MAKAR_ISA {

const Table& table(const Table& base) {
  static const Table t = [&] {
    Table made = base;
    made.isa = MAKAR_TEXT(MAKAR_ISA);
    fill_quant(made);
    fill_quant_rows(made);
    fill_quant_peak(made);
    return made;
  }();
  return t;
}

}  // namespace makar::kernels::MAKAR_ISA
