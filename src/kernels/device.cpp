// What devices do by default: recorded work is called again, copies do not wait, fused kernels are separate
// ones.
#include "kernels/device.h"

#include <algorithm>

namespace makar {

using namespace kernels;

namespace {

class CalledWork : public RecordedWork {
 public:
  explicit CalledWork(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  std::function<void()> work_;
};

class FinishedCopy : public PendingCopy {
 public:
  explicit FinishedCopy(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  const std::byte* wait() override { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

// Device memory for the duration of one call.
template <class T>
class DeviceScratch {
 public:
  DeviceScratch(Memory& memory, int64_t count)
      : memory_(memory),
        bytes_(static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T)),
        block_(memory.allocate(bytes_)) {}
  ~DeviceScratch() { memory_.deallocate(block_, bytes_); }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  T* data() const { return reinterpret_cast<T*>(block_); }

 private:
  Memory& memory_;
  size_t bytes_;
  std::byte* block_;
};

}  // namespace

std::unique_ptr<RecordedWork> Device::record(std::function<void()> work) {
  return std::make_unique<CalledWork>(std::move(work));
}

std::unique_ptr<PendingCopy> Device::copy_later(const std::byte* from, size_t bytes) {
  std::vector<std::byte> to(bytes);
  memory().copy_out(to.data(), from, bytes);
  return std::make_unique<FinishedCopy>(std::move(to));
}

void run_separately(Device& device, const FusedProductsBf16& a) {
  if (a.norm) device.norm_bf16(*a.norm);
  device.gemm_packed_bf16(a.products);
  if (a.gated) {
    const PackedProductBf16 &gate = a.products.products[0], &up = a.products.products[1];
    device.gated_bf16({a.kind, gate.c, up.c, a.gated, a.products.m * gate.b->n()});
  }
  if (a.sum) {
    const PackedProductBf16& one = a.products.products[0];
    device.add_bf16({a.residual, one.c, a.sum, a.products.m * one.b->n()});
  }
}

void run_separately(Device& device, const DecodeAttentionBf16& a) {
  const AttentionShape& s = a.shape;
  const DeviceScratch<Bf16> q(device.memory(), a.cos ? s.count * s.heads * s.head_dim : 0),
      k(device.memory(), a.cos ? s.count * s.kv_heads * s.head_dim : 0);
  if (a.cos) {
    device.rope_bf16(
        {a.q, a.cos, a.sin, q.data(), s.count, s.heads, s.head_dim, a.rotary, a.interleaved, 1.0f});
    device.rope_bf16(
        {a.k, a.cos, a.sin, k.data(), s.count, s.kv_heads, s.head_dim, a.rotary, a.interleaved, 1.0f});
  }
  device.cache_store_bf16(
      {s.sequences, s.count, 1, a.cos ? k.data() : a.k, a.v, s.kv_heads, s.head_dim, a.cache});
  device.attention_cached_bf16({s, a.cos ? q.data() : a.q, a.cache, a.out});
}

}  // namespace makar
