// The functions of src/kernels/cuda/instructions.cuh for the simulated GPU.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "tensor_cores.h"

namespace makar::kernels::cuda {

using simulated_gpu::Block;

// --- programmatic dependent launch ---

inline void let_next_kernel_start() {}  // the next one starts early whether this is called or not
inline void wait_for_previous_kernel() { Block::current().wait_for_previous_kernel(); }
inline void fetch_to_cache(const void*) {}

// --- numbers ---

inline uint32_t pack_pair(float low, float high) {
  return static_cast<uint32_t>(__float2bfloat16_rn(high).bits) << 16 | __float2bfloat16_rn(low).bits;
}
inline float exp2_of(float x) { return exp2f(x); }

// --- shared memory ---

inline std::byte* dynamic_shared() { return Block::current().shared_memory(); }
inline uint32_t shared_address(const void* p) { return Block::current().address_of(p); }
template <class T>
void store_shared(uint32_t at, T x) {
  std::memcpy(Block::current().at(at, sizeof x), &x, sizeof x);
}
template <int kBarrier, int kCount>
void sync_threads() {
  static_assert(kCount % 32 == 0 && kBarrier < 16);
  Block::current().sync(kBarrier, kCount, false);
}

// --- tensor cores, one warp ---

inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { simulated_gpu::mma(d, a, b0, b1); }
inline void mma_int8(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1, int c) {
  simulated_gpu::mma_int8(d, {a0, a1, a2, a3}, {b0, b1}, c);
}
inline void mma_int8(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, int c) { simulated_gpu::mma_int8(d, {a0, a1}, {b}, c); }
inline void load_matrices(uint32_t (&r)[4], uint32_t address) { simulated_gpu::load_matrices(r, address, false); }
inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) { simulated_gpu::load_matrices(r, address, true); }

// --- copies of threads ---

inline void copy16(uint32_t shared, const void* global, bool valid) {
  Block& block = Block::current();
  if (valid && reinterpret_cast<uintptr_t>(global) % 16 != 0) block.fault("a copy of 16 bytes from an address that is not a multiple of 16");
  const simulated_gpu::Copy16 copy{block.at(shared, 16), valid ? static_cast<const std::byte*>(global) : nullptr};
  simulated_gpu::settings().late ? block.thread().copies.work.push_back(copy) : simulated_gpu::do_copy(copy);
}
inline void copies_commit() { Block::current().thread().copies.close(); }
template <int kPending>
void copies_wait() {
  Block::current().thread().copies.finish(kPending, simulated_gpu::do_copy);
}

// --- barriers in shared memory ---

inline void barrier_init(uint32_t barrier, uint32_t arrivals) { Block::current().init(barrier, arrivals); }
inline void barriers_ready() {}
inline void barrier_arrive(uint32_t barrier) { Block::current().arrive(barrier, 0); }
inline void barrier_wait(uint32_t barrier, uint32_t parity) { Block::current().wait(barrier, parity); }
inline void barrier_arrive_after_copies(uint32_t barrier) {
  auto& copies = Block::current().thread().copies;
  Block::current().in_background([work = copies.work, barrier] {
    for (const simulated_gpu::Copy16& copy : work) simulated_gpu::do_copy(copy);
    Block::current().arrive(barrier, 0);
  });
  copies.clear();
}
inline void barrier_expect(uint32_t barrier, uint32_t bytes) { Block::current().arrive(barrier, static_cast<int32_t>(bytes)); }

// --- the copy engine ---

inline uint64_t streamed_once() { return 0; }
inline void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int k, int row, uint64_t = 0) {
  simulated_gpu::copy_box(to, *map, barrier, k, row);
}
inline void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) { simulated_gpu::copy_bytes(to, from, bytes, barrier); }

// --- tensor cores, four warps ---

inline uint64_t box_descriptor(uint32_t shared) {
  return uint64_t{(shared & 0x3FFFF) >> 4} | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
inline void wgmma_fence() {}
inline void wgmma_commit() { Block::current().thread().products.close(); }
template <int kPending>
void wgmma_wait() {
  Block& block = Block::current();
  block.thread().products.finish(kPending, simulated_gpu::do_product);
  block.sync_warpgroup();  // an instruction ends for all four warps together
}
template <int kColumns>
void wgmma(float (&d)[kColumns / 2], uint64_t a, uint64_t b) {
  const simulated_gpu::GroupProduct product{d, a, b, kColumns};
  simulated_gpu::settings().late ? Block::current().thread().products.work.push_back(product) : simulated_gpu::do_product(product);
}

}  // namespace makar::kernels::cuda
