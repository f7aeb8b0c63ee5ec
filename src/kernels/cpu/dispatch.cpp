#include <cstdlib>
#include <string>

#include "kernels/cpu/table.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace makar::kernels {

namespace portable {
const Table& table();
}
#if defined(__aarch64__)
namespace neon {
const Table& table();
}
#elif defined(__x86_64__)
namespace avx2 {
const Table& table();
}
namespace avx512 {
const Table& table();
}
#endif

std::vector<const Table*> available() {
  std::vector<const Table*> tables = {&portable::table()};
#if defined(__aarch64__)
  const unsigned long caps = getauxval(AT_HWCAP);
  if ((caps & HWCAP_ASIMDHP) && (caps & HWCAP_ASIMDDP)) tables.push_back(&neon::table());
#elif defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&avx2::table());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    tables.push_back(&avx512::table());
#endif
  return tables;
}

const Table& cpu() {
  static const Table& chosen = []() -> const Table& {
    const auto tables = available();
    if (const char* wanted = std::getenv("MAKAR_ISA"))
      for (const Table* t : tables)
        if (std::string(t->isa) == wanted) return *t;
    return *tables.back();
  }();
  return chosen;
}

}  // namespace makar::kernels
