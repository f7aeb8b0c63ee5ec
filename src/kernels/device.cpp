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

std::vector<std::shared_ptr<const PackedWeight>> Device::pack_together(std::span<const Operand> weights,
                                                                       int64_t n, int64_t k) {
  std::vector<std::shared_ptr<const PackedWeight>> out;
  for (const Operand& w : weights) out.push_back(pack(w, n, k));
  return out;
}

int64_t Device::rows_per_tile(int64_t, int64_t) const { return 1; }

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

void run_separately(Device& device, const FusedProducts& a) {
  if (a.norm) device.norm_bf16(*a.norm);
  PackedGemm products = a.products;
  const int64_t m = products.m, k = products.products[0].b->k();
  const DeviceScratch<float> x(device.memory(), products.a.type == DType::kBF16 ? m * k : 0);
  if (products.a.type == DType::kBF16) {
    device.convert({products.a.data, DType::kBF16, x.data(), DType::kF32, m * k, nullptr, false});
    products.a = {x.data(), DType::kF32, k, 1};
  }
  device.gemm_packed(products);
  const PackedProduct& one = products.products[0];
  const int64_t n = m * one.b->n();
  if (a.gated) device.gated({a.kind, one.out.c, products.products[1].out.c, a.gated, n});
  if (a.sum) device.add({a.residual, one.out.c, a.sum, 1, n, false});
}

void run_separately(Device& device, const DecodeAttentionBf16& a) {
  const AttentionShape& s = a.shape;
  const int64_t queries = s.count * s.heads * s.head_dim, keys = s.count * s.kv_heads * s.head_dim;
  const bool floats = a.type == DType::kF32;
  const DeviceScratch<float> rotated(device.memory(), floats && a.cos ? std::max(queries, keys) : 0);
  const DeviceScratch<Bf16> q(device.memory(), floats || a.cos ? queries : 0),
      k(device.memory(), floats || a.cos ? keys : 0), v(device.memory(), floats ? keys : 0);
  const auto ready = [&](const void* x, const DeviceScratch<Bf16>& to, int64_t heads, int64_t count,
                         bool rotates) -> const Bf16* {
    if (floats) {
      if (rotates)
        device.rope({static_cast<const float*>(x), a.cos, a.sin, rotated.data(), s.count, heads, s.head_dim,
                     a.rotary, a.interleaved, 1.0f});
      device.convert(
          {rotates ? rotated.data() : x, DType::kF32, to.data(), DType::kBF16, count, nullptr, false});
    } else if (rotates) {
      device.rope_bf16({static_cast<const Bf16*>(x), a.cos, a.sin, to.data(), s.count, heads, s.head_dim,
                        a.rotary, a.interleaved, 1.0f});
    } else {
      return static_cast<const Bf16*>(x);
    }
    return to.data();
  };
  const bool rotates = a.cos != nullptr;
  const Bf16 *ready_q = ready(a.q, q, s.heads, queries, rotates),
             *ready_k = ready(a.k, k, s.kv_heads, keys, rotates),
             *ready_v = ready(a.v, v, s.kv_heads, keys, false);
  device.cache_store_bf16({s.sequences, s.count, 1, ready_k, ready_v, s.kv_heads, s.head_dim, a.cache});
  device.attention_cached_bf16({s, ready_q, a.cache, a.out});
}

}  // namespace makar
