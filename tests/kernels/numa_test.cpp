// On a machine with several NUMA nodes: packed weights lie on the nodes of the threads that read them.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "base/cores.h"
#include "kernels/cpu/gemm.h"

namespace makar::kernels {
namespace {

// The node of each page of a buffer; negative where the page is not present.
std::vector<int> nodes_of_pages(const std::byte* data, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  std::vector<const void*> pages;
  for (size_t at = 0; at < bytes; at += page) pages.push_back(data + at);
  std::vector<int> nodes(pages.size(), -1);
  syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0);
  return nodes;
}

TEST(Numa, PackedWeightsLieOnTheNodesOfTheirReaders) {
  const Cores& machine = cores();
  if (machine.nodes.empty()) GTEST_SKIP() << "this machine has one node";
  const int threads = static_cast<int>(machine.nodes.size()) * 2;
  ThreadPool pool(threads);
  const int64_t n = 8192, k = 8192;
  const std::vector<std::byte> blocks(bytes_of(DType::kQ8_0, n * k));
  const PackedMatrix packed = PackedMatrix::pack(pool, {blocks.data(), DType::kQ8_0, k, 1}, n, k);
  const std::vector<int> nodes = nodes_of_pages(packed.quant().panel(0), packed.bytes());
  size_t local = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto reader = i * static_cast<size_t>(threads) / nodes.size();
    local += nodes[i] == machine.node_of(static_cast<int>(reader), threads).number;
  }
  std::printf("%zu of %zu pages on the nodes of their readers\n", local, nodes.size());
  EXPECT_GE(local * 100, nodes.size() * 95);
}

}  // namespace
}  // namespace makar::kernels
