// The instruction sets of this processor, and the one that kernels use.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/nearest.h"
#include "base/quote.h"
#include "kernels/cpu/table.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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
// Tables that replace the quantized products of another table; amx also replaces the products of bf16.
namespace avxvnni {
const Table& table(const Table& base);
}
namespace avx512vnni {
const Table& table(const Table& base);
}
namespace amx {
const Table& table(const Table& base);
}

namespace {

struct CpuidWords {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
CpuidWords cpuid(unsigned leaf, unsigned sub) {
  CpuidWords w;
  if (!__get_cpuid_count(leaf, sub, &w.a, &w.b, &w.c, &w.d)) return {};
  return w;
}

// AMX needs permission from the operating system, which then saves the tile state (Linux 5.16).
bool may_use_tiles() {
  constexpr int kArchReqXcompPerm = 0x1023, kXtileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXtileData) == 0;
}

void add_x86(std::vector<const Table*>& tables) {
  __builtin_cpu_init();
  const bool f16c = cpuid(1, 0).c >> 29 & 1;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !f16c) return;
  tables.push_back(&avx2::table());
  const unsigned leaf7_1_eax = cpuid(7, 1).a, leaf7_0_edx = cpuid(7, 0).d;
  if (leaf7_1_eax >> 4 & 1) tables.push_back(&avxvnni::table(avx2::table()));  // AVX-VNNI
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
    return;
  tables.push_back(&avx512::table());
  if (!__builtin_cpu_supports("avx512vnni")) return;
  tables.push_back(&avx512vnni::table(avx512::table()));
  // AMX-BF16, AMX-TILE and AMX-INT8
  if ((leaf7_0_edx >> 22 & 1) && (leaf7_0_edx >> 24 & 1) && (leaf7_0_edx >> 25 & 1) && may_use_tiles())
    tables.push_back(&amx::table(avx512vnni::table(avx512::table())));
}

}  // namespace
#endif

std::vector<const Table*> available() {
  std::vector<const Table*> tables = {&portable::table()};
#if defined(__aarch64__)
  const unsigned long caps = getauxval(AT_HWCAP);
  if ((caps & HWCAP_ASIMDHP) && (caps & HWCAP_ASIMDDP)) tables.push_back(&neon::table());
#elif defined(__x86_64__)
  add_x86(tables);
#endif
  return tables;
}

Result<const Table*> select_table(const char* name) {
  static const std::vector<std::string> known = {"portable", "neon",       "avx2", "avxvnni",
                                                 "avx512",   "avx512vnni", "amx"};
  const auto tables = available();
  if (!name || !name[0]) return tables.back();
  std::vector<std::string> names;
  for (const Table* t : tables) {
    if (std::string(t->isa) == name) return t;
    names.emplace_back(t->isa);
  }
  if (std::find(known.begin(), known.end(), name) != known.end())
    return error_of(Error::Kind::kUnsupported, "MAKAR_ISA",
                    "this processor does not support {}; it supports: {}", quote(name),
                    fmt::join(names, ", "));
  return error_at("MAKAR_ISA", "unknown instruction set {}; this processor supports: {}{}", quote(name),
                  fmt::join(names, ", "), did_you_mean(name, names));
}

const Table& cpu() {
  static const Table& table = *select_table(std::getenv("MAKAR_ISA")).value();
  return table;
}

}  // namespace makar::kernels
