// The choice of an instruction set by name, as MAKAR_ISA does.
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cpu/table.h"
#include "kernels/cpu_device.h"

namespace makar::kernels {
namespace {

TEST(Dispatch, SelectsTheBestTableOrTheNamedOne) {
  const auto tables = available();
  for (const char* unset : {static_cast<const char*>(nullptr), ""})
    EXPECT_EQ(select_table(unset).value(), tables.back());
  for (const Table* t : tables) EXPECT_EQ(select_table(t->isa).value(), t);
}

TEST(Dispatch, ReportsUnknownAndUnsupportedSetsWithTheAvailableOnes) {
  const auto unknown = select_table("portabel");
  ASSERT_FALSE(unknown.ok());
  EXPECT_TRUE(unknown.error().text().starts_with("MAKAR_ISA: unknown instruction set 'portabel'; "));
  EXPECT_TRUE(unknown.error().text().ends_with("; did you mean 'portable'?")) << unknown.error().text();
#if defined(__x86_64__)
  const auto unsupported = select_table("neon");
#else
  const auto unsupported = select_table("avx2");
#endif
  ASSERT_FALSE(unsupported.ok());
  EXPECT_EQ(unsupported.error().kind, Error::Kind::kUnsupported);
  for (const auto& error : {unknown.error(), unsupported.error()})
    EXPECT_NE(error.text().find("supports: portable"), std::string::npos) << error.text();
}

TEST(Dispatch, OpenDeviceReportsAWrongSet) {
  struct Restore {
    const char* set = std::getenv("MAKAR_ISA");
    std::string before = set ? set : "";
    void now() const { set ? setenv("MAKAR_ISA", before.c_str(), 1) : unsetenv("MAKAR_ISA"); }
    ~Restore() { now(); }
  } const restore;
  setenv("MAKAR_ISA", "avx51", 1);
  for (const std::string& name : device_names()) {
    const auto device = open_device(name);
    ASSERT_FALSE(device.ok()) << name;
    EXPECT_EQ(device.error().place, "MAKAR_ISA") << name;
  }
  restore.now();
  EXPECT_TRUE(open_device("cpu").ok());
  EXPECT_EQ(CpuDevice::instructions_in_use().value(), cpu().isa);
}

}  // namespace
}  // namespace makar::kernels
