// Every kernel of a table gives the same bits on every instruction set; quant_test, product_bf16_test and
// gemm_test compare the matrix products.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>

#include "base/sha256.h"
#include "kernels/all_tables.h"
#include "kernels/results_of_table.h"

namespace makar::kernels {
namespace {

using namespace test;

TEST(InstructionSets, AreListed) {
  std::string names;
  for (const Table* t : all_tables()) names += std::string(names.empty() ? "" : ", ") + t->isa;
  std::printf("instruction sets tested: %s\n", names.c_str());
  EXPECT_EQ(available()[0]->isa, std::string("portable"));
}

Results results_of(const Table& t) {
  Results all;
  add_row_results(t, all);
  add_recurrent_results(t, all);
  add_attention_results(t, all);
  return all;
}

TEST(InstructionSets, GiveTheSameBits) {
  const auto tables = available();
  const Results first = results_of(*tables[0]);
  for (const NamedResult& result : first)
    for (const float x : result.values) ASSERT_FALSE(std::isnan(x)) << result.name;
  for (const Table* t : tables) {
    const Results other = results_of(*t);
    ASSERT_EQ(first.size(), other.size());
    for (size_t r = 0; r < first.size(); ++r) {
      const std::vector<float>&want = first[r].values, &got = other[r].values;
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_EQ(std::memcmp(&want[i], &got[i], sizeof(float)), 0)
            << t->isa << ", " << first[r].name << ", value " << i << ": " << got[i] << ", not " << want[i];
    }
  }
}

// As in pinned_bits_test.cpp: machines of different architectures are compared by a stored hash.
TEST(InstructionSets, GiveThePinnedBits) {
  Sha256 hash;
  for (const NamedResult& result : results_of(*available()[0]))
    hash.add(std::as_bytes(std::span(result.values)));
  EXPECT_EQ(hash.hex().substr(0, 16), "97c38f127648217f");
}

}  // namespace
}  // namespace makar::kernels
