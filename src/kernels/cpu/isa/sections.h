// The sections of one instruction set's table. Every file in this folder is compiled once per instruction
// set, in the namespace MAKAR_ISA, and fills its section of the table.
#pragma once
#include "kernels/cpu/table.h"

// The name of MAKAR_ISA as text.
#define MAKAR_TEXT_OF(x) #x
#define MAKAR_EXPANDED_TEXT_OF(x) MAKAR_TEXT_OF(x)
#define MAKAR_ISA_NAME MAKAR_EXPANDED_TEXT_OF(MAKAR_ISA)

namespace makar::kernels::MAKAR_ISA {

void fill_gemm(Table& table);
void fill_elementwise(Table& table);
void fill_norm(Table& table);
void fill_softmax(Table& table);
void fill_rope(Table& table);
void fill_update(Table& table);
void fill_attention(Table& table);
void fill_pack(Table& table);
void fill_product_bf16(Table& table);
void fill_quant(Table& table);
void fill_quant_rows(Table& table);
void fill_quant_eight(Table& table);
void fill_quant_peak(Table& table);
void fill_limits(Table& table);
void fill_scan(Table& table);

const Table& table();

}  // namespace makar::kernels::MAKAR_ISA
