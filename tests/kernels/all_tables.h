// The kernel tables that bit tests compare: those of this processor, and the AVX-VNNI, AVX-512 VNNI and AMX
// kernels compiled with stand-ins for their instructions (stand_ins/instructions.h), as far as AVX2 and
// AVX-512 run them.
#pragma once
#include <vector>

#include "kernels/cpu/table.h"

namespace makar::kernels::test {

std::vector<const Table*> all_tables();

}  // namespace makar::kernels::test
