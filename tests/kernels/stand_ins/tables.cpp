#include <string_view>

#include "kernels/all_tables.h"

namespace makar::kernels {

#if defined(__x86_64__)
namespace avxvnni_stand_in {
const Table& table(const Table& base);
}
namespace avx512vnni_stand_in {
const Table& table(const Table& base);
}
namespace amx_stand_in {
const Table& table(const Table& base);
}
#endif

namespace test {

std::vector<const Table*> all_tables() {
  std::vector<const Table*> tables = available();
#if defined(__x86_64__)
  const Table *avx2 = nullptr, *avx512 = nullptr;
  for (const Table* t : tables) {
    if (t->isa == std::string_view("avx2")) avx2 = t;
    if (t->isa == std::string_view("avx512")) avx512 = t;
  }
  if (avx2) tables.push_back(&avxvnni_stand_in::table(*avx2));
  if (avx512) {
    const Table& vnni = avx512vnni_stand_in::table(*avx512);
    tables.push_back(&vnni);
    tables.push_back(&amx_stand_in::table(vnni));
  }
#endif
  return tables;
}

}  // namespace test
}  // namespace makar::kernels
