// A device: its memory and the one list of whole-op kernels it provides. Kernels run in the order of the
// calls and may still be running when a call returns; finish() waits for all of them, and so does copying
// memory to the host. A device must be used by one thread at a time. Shapes are checked in ops/; kernels do
// not check their arguments.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/bf16_args.h"
#include "tensor/memory.h"

namespace makar {

// X(entry, arguments): void entry(const kernels::arguments&).
#define MAKAR_DEVICE_KERNELS(X)                      \
  X(fill, Fill)                                      \
  X(fill_from, FillFrom)                             \
  X(add, Add)                                        \
  X(multiply, Multiply)                              \
  X(multiply_sum, MultiplySum)                       \
  X(sum_rows, SumRows)                               \
  X(scale, Scale)                                    \
  X(scale_by, ScaleBy)                               \
  X(shift, Shift)                                    \
  X(pair, Pair)                                      \
  X(pair_backward, PairBackward)                     \
  X(activate, Activate)                              \
  X(activate_backward, ActivateBackward)             \
  X(gated, Gated)                                    \
  X(gated_backward, GatedBackward)                   \
  X(dropout, Dropout)                                \
  X(blend, Blend)                                    \
  X(copy_columns, CopyColumns)                       \
  X(transpose, Transpose)                            \
  X(gather_rows, GatherRows)                         \
  X(scatter_rows, ScatterRows)                       \
  X(pick, Pick)                                      \
  X(pick_backward, PickBackward)                     \
  X(scale_rows, ScaleRows)                           \
  X(row_dots, RowDots)                               \
  X(row_norms, RowNorms)                             \
  X(column_sums, ColumnSums)                         \
  X(column_squares, ColumnSquares)                   \
  X(sum, Sum)                                        \
  X(sum_squares, SumSquaresList)                     \
  X(embed, Embed)                                    \
  X(embed_backward, EmbedBackward)                   \
  X(unfold, Unfold)                                  \
  X(unfold_backward, UnfoldBackward)                 \
  X(decode, Decode)                                  \
  X(norm, Norm)                                      \
  X(norm_backward, NormBackward)                     \
  X(batch_norm, BatchNorm)                           \
  X(batch_norm_backward, BatchNormBackward)          \
  X(softmax, Softmax)                                \
  X(softmax_backward, SoftmaxBackward)               \
  X(cross_entropy, CrossEntropy)                     \
  X(total_loss, TotalLoss)                           \
  X(kl_target, KlTarget)                             \
  X(rope_table, RopeTableRows)                       \
  X(rope, Rope)                                      \
  X(gemm, Gemm)                                      \
  X(gemm_batch, GemmBatch)                           \
  X(gemm_packed, PackedGemm)                         \
  X(attention, Attention)                            \
  X(attention_weights, AttentionWeights)             \
  X(attention_backward, AttentionBackward)           \
  X(cache_store, CacheStore)                         \
  X(attention_cached, AttentionCached)               \
  X(bias_from_table, BiasFromTable)                  \
  X(bias_from_table_backward, BiasFromTableBackward) \
  X(short_conv, ShortConv)                           \
  X(short_conv_backward, ShortConvBackward)          \
  X(selective_scan, SelectiveScan)                   \
  X(selective_scan_backward, SelectiveScanBackward)  \
  X(update, Update)                                  \
  X(adamw, AdamWList)                                \
  X(adafactor, Adafactor)                            \
  X(muon_momentum, MuonMomentum)                     \
  X(normalize, Normalize)                            \
  X(muon_apply, MuonApply)                           \
  X(convert, Convert)                                \
  X(round_layer_bf16, RoundLayerBf16)                \
  X(add_bf16, AddBf16)                               \
  X(column_sums_bf16, ColumnSumsBf16)                \
  X(activate_bf16, ActivateBf16)                     \
  X(activate_backward_bf16, ActivateBackwardBf16)    \
  X(gated_bf16, GatedBf16)                           \
  X(gated_backward_bf16, GatedBackwardBf16)          \
  X(rope_bf16, RopeBf16)                             \
  X(norm_bf16, NormBf16)                             \
  X(norm_backward_bf16, NormBackwardBf16)            \
  X(product_bf16, ProductBf16)                       \
  X(gemm_packed_bf16, PackedGemmBf16)                \
  X(fused_products_bf16, FusedProductsBf16)          \
  X(fused_products, FusedProducts)                   \
  X(route_rows, RouteRows)                           \
  X(expert_products, ExpertProducts)                 \
  X(add_experts, AddExperts)                         \
  X(cross_entropy_bf16, CrossEntropyBf16)            \
  X(arg_max, ArgMax)                                 \
  X(sample_rows, SampleRows)                         \
  X(advance_rows, AdvanceRows)                       \
  X(attention_bf16, AttentionBf16)                   \
  X(cache_store_bf16, CacheStoreBf16)                \
  X(attention_cached_bf16, AttentionCachedBf16)      \
  X(decode_attention_bf16, DecodeAttentionBf16)      \
  X(attention_backward_bf16, AttentionBackwardBf16)

// Measured limits of a machine: memory bytes per second and arithmetic operations per second (a multiply-add
// counts as two).
struct MachineLimits {
  double bytes_per_second = 0, f32_operations_per_second = 0;
  double int8_operations_per_second = 0;  // 0 if unknown
};

// Kernels that were recorded once and run again on the same memory.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void run() = 0;
};
// A copy to the host that follows the kernels called before it.
class PendingCopy {
 public:
  virtual ~PendingCopy() = default;
  // Waits for this copy, not for later kernels. The bytes are valid as long as this object.
  virtual const std::byte* wait() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // The memory of the tensors this device computes on. The device must outlive them.
  virtual Memory& memory() = 0;
  virtual void finish() = 0;
  virtual int threads() const = 0;  // host threads used by kernels
  virtual MachineLimits measure_limits() = 0;

  // Packs weights [n, k] once for repeated products on this device.
  virtual std::shared_ptr<const kernels::PackedWeight> pack(const kernels::Operand& b, int64_t n,
                                                            int64_t k) = 0;
  // Packs weights of one type and shape for expert_products(); each also serves as packed alone.
  virtual std::vector<std::shared_ptr<const kernels::PackedWeight>> pack_together(
      std::span<const kernels::Operand> weights, int64_t n, int64_t k);
  // The rows per tile of an ExpertTiles for this number of rows, routed ones counted each time.
  virtual int64_t rows_per_tile(int64_t routed_rows, int64_t experts) const;

  // Whether running recorded work again costs less than calling its kernels again.
  virtual bool records_work() const { return false; }
  // Records the kernels that `work` calls, without running them. `work` must not copy to the host or wait;
  // each run copies the same bytes to the device, and the memory that it allocates belongs to the recording
  // (tensors in it may outlive the recording). The addresses it uses must stay valid. By default, running the
  // recording calls `work`.
  virtual std::unique_ptr<RecordedWork> record(std::function<void()> work);
  // Starts to copy `bytes` bytes to the host.
  virtual std::unique_ptr<PendingCopy> copy_later(const std::byte* from, size_t bytes);

#define MAKAR_KERNEL(entry, arguments) virtual void entry(const kernels::arguments& args) = 0;
  MAKAR_DEVICE_KERNELS(MAKAR_KERNEL)
#undef MAKAR_KERNEL
};

// Call the kernels that a fused one replaces.
void run_separately(Device& device, const kernels::FusedProductsBf16& a);
void run_separately(Device& device, const kernels::FusedProducts& a);
void run_separately(Device& device, const kernels::DecodeAttentionBf16& a);

// "cpu"; "fence" (the CPU with memory that the host cannot access outside kernels, for tests); "cuda" if
// built with it. `threads`: 0 means one per core.
Result<std::unique_ptr<Device>> open_device(const std::string& name, int threads = 0);
const std::vector<std::string>& device_names();

}  // namespace makar
