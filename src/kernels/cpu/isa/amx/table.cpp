// The table of AVX-512 VNNI, with AMX for many rows.
#include "kernels/cpu/isa/amx/config.h"
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

double peak_int8(int64_t loops) {
  configure_tiles(16, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(4);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < loops / 16; ++i) {
    _tile_dpbssd(0, 2, 4);
    _tile_dpbssd(1, 2, 4);
    _tile_dpbssd(6, 2, 4);
    _tile_dpbssd(7, 2, 4);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 64 * static_cast<double>(loops / 16);
}

}  // namespace

const Table& table(const Table& base) {
  static const Table t = [&] {
    Table result = base;
    result.isa = MAKAR_ISA_NAME;
    result.peak_int8 = peak_int8;
    fill_tiles(result);
    fill_product_bf16(result);
    return result;
  }();
  return t;
}

}  // namespace makar::kernels::MAKAR_ISA
