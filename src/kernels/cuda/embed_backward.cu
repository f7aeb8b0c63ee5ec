// The gradient of a table lookup: the rows of each id are added in their order, as on the CPU. A stable sort of the
// ids brings the rows of one id together; a block handles one id.
#include <cub/device/device_radix_sort.cuh>

#include <bit>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;

namespace {

constexpr int kBlock = 256, kLoads = 8;

__global__ void __launch_bounds__(kBlock) add_rows_kernel(EmbedBackward a, const int64_t* ids, const int32_t* rows) {
  const int64_t begin = blockIdx.x, id = ids[begin];
  if (id == a.padding || (begin > 0 && ids[begin - 1] == id)) return;
  int64_t end = begin + 1;
  while (end < a.count && ids[end] == id) ++end;
  for (int64_t c = threadIdx.x; c < a.width; c += kBlock) {
    float sum = a.dtable[id * a.width + c];
    for (int64_t i = begin; i < end; i += kLoads) {  // kLoads loads are in flight
      float v[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) v[j] = i + j < end ? a.dy[rows[i + j] * a.width + c] : 0.0f;
#pragma unroll
      for (int j = 0; j < kLoads; ++j)
        if (i + j < end) sum += v[j];
    }
    a.dtable[id * a.width + c] = sum;
  }
}

}  // namespace

void CudaDevice::embed_backward(const EmbedBackward& a) {
  if (!a.accumulate) memory_.zero(reinterpret_cast<std::byte*>(a.dtable), sizeof(float) * a.table_rows * a.width);
  if (a.count <= 0 || a.width <= 0) return;
  const CudaScratch<int64_t> sorted(memory_, a.count);
  const CudaScratch<int32_t> indices(memory_, 2 * a.count);
  int32_t *in_order = indices.data(), *rows = in_order + a.count;
  cuda::each(stream_, a.count, [=] __device__(int64_t i) { in_order[i] = static_cast<int32_t>(i); });
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(a.table_rows))));
  const auto count = static_cast<int>(a.count);
  size_t bytes = 0;
  cuda_check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, a.ids, sorted.data(), in_order, rows, count, 0, bits, stream_),
             "embed_backward");
  const CudaScratch<std::byte> work(memory_, static_cast<int64_t>(bytes));
  cuda_check(cub::DeviceRadixSort::SortPairs(work.data(), bytes, a.ids, sorted.data(), in_order, rows, count, 0, bits, stream_),
             "embed_backward");
  cuda::launch(stream_, static_cast<unsigned>(a.count), kBlock, 0, add_rows_kernel, a, sorted.data(), rows);
}

}  // namespace makar
