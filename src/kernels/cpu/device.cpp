#include <cstdlib>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/limits.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

CpuDevice::CpuDevice(int threads)
    : own_pool_(std::make_unique<ThreadPool>(threads)), pool_(own_pool_.get()) {}
CpuDevice::CpuDevice(ThreadPool& pool) : pool_(&pool) {}
CpuDevice::~CpuDevice() = default;

int CpuDevice::threads() const { return pool_->threads(); }

std::vector<std::string> CpuDevice::instructions() {
  std::vector<std::string> out;
  for (const Table* table : available()) out.emplace_back(table->isa);
  return out;
}

Result<std::string> CpuDevice::instructions_in_use() {
  MAKAR_TRY(const Table* table, select_table(std::getenv("MAKAR_ISA")));
  return std::string(table->isa);
}

MachineLimits CpuDevice::measure_limits() { return kernels::measure_limits(*pool_); }

std::shared_ptr<const PackedWeight> CpuDevice::pack(const Operand& b, int64_t n, int64_t k) {
  return std::make_shared<PackedMatrix>(PackedMatrix::pack(*pool_, b, n, k, cpu(), memory()));
}

size_t CpuDevice::packed_bytes(DType type, int64_t n, int64_t k) {
  return PackedMatrix::bytes_for(type, n, k);
}

void CpuDevice::gemm(const Gemm& a) { kernels::gemm(*pool_, a.m, a.n, a.k, a.a, a.b, a.out); }

void CpuDevice::gemm_batch(const GemmBatch& a) {
  Gemm one = a.first;
  for (int64_t i = 0; i < a.count; ++i) {
    gemm(one);
    one.a.data = static_cast<const float*>(one.a.data) + a.a_step;
    one.b.data = static_cast<const float*>(one.b.data) + a.b_step;
    one.out.c += a.c_step;
  }
}

void CpuDevice::gemm_packed(const PackedGemm& a) {
  if (a.count == 1)
    kernels::gemm(*pool_, a.m, a.a, static_cast<const PackedMatrix&>(*a.products[0].b), a.products[0].out);
  else
    kernels::gemm(*pool_, a.m, a.a, std::span(a.products, static_cast<size_t>(a.count)));
}

}  // namespace makar
