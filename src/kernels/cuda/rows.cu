// Kernels that move, gather and reduce rows.
#include <cuda_fp16.h>

#include "kernels/cuda/block_rows.cuh"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quant_product.cuh"

namespace makar {

using namespace kernels;
using cuda::add_in_order;
using cuda::each;
using cuda::each_row;
using cuda::kLanes;
using cuda::madd;
using cuda::RowLanes;

void CudaDevice::copy_columns(const CopyColumns& a) {
  each(stream_, a.rows * a.cols, [=] __device__(int64_t i) {
    const int64_t r = i / a.cols, c = i % a.cols;
    float* to = a.to + r * a.to_stride + c;
    const float from = a.from[r * a.from_stride + c];
    *to = a.accumulate ? *to + from : from;
  });
}
void CudaDevice::transpose(const Transpose& a) {
  each(stream_, a.rows * a.cols,
       [=] __device__(int64_t i) { a.y[i] = a.x[i % a.rows * a.cols + i / a.rows]; });
}
void CudaDevice::gather_rows(const GatherRows& a) {
  each(stream_, a.count * a.width, [=] __device__(int64_t i) {
    const int64_t row = a.index[i / a.width];
    if (row < 0) {
      if (!a.accumulate) a.y[i] = 0.0f;
      return;
    }
    const float from = a.x[row * a.width + i % a.width];
    a.y[i] = a.accumulate ? a.y[i] + from : from;
  });
}
// One thread per column, so every sum keeps the order of i.
void CudaDevice::scatter_rows(const ScatterRows& a) {
  each(stream_, a.width, [=] __device__(int64_t c) {
    for (int64_t i = 0; i < a.count; ++i) {
      if (a.index[i] < 0) continue;
      float* to = a.y + a.index[i] * a.width + c;
      const float from = a.x[i * a.width + c];
      *to = a.accumulate ? *to + from : from;
    }
  });
}
void CudaDevice::pick(const Pick& a) {
  each(stream_, a.rows, [=] __device__(int64_t i) { a.y[i] = a.x[i * a.cols + a.index[i]]; });
}
void CudaDevice::pick_backward(const PickBackward& a) {
  each(stream_, a.rows, [=] __device__(int64_t i) { a.dx[i * a.cols + a.index[i]] += a.dy[i]; });
}
void CudaDevice::scale_rows(const ScaleRows& a) {
  each(stream_, a.rows * a.cols, [=] __device__(int64_t i) {
    const float w = a.w[i / a.cols];
    a.y[i] = a.accumulate ? madd(a.x[i], w, a.y[i]) : a.x[i] * w;
  });
}
void CudaDevice::row_dots(const RowDots& a) {
  each_row(stream_, a.rows, [=] __device__(int64_t r, const RowLanes& lanes) {
    const float *x = a.a + r * a.cols, *y = a.b + r * a.cols;
    const float d = lanes.dot_of(
        a.cols, [=](int64_t i) { return x[i]; }, [=](int64_t i) { return y[i]; });
    if (lanes.lane == 0) a.y[r] = a.accumulate ? a.y[r] + d : d;
  });
}
void CudaDevice::row_norms(const RowNorms& a) {
  each_row(stream_, a.rows, [=] __device__(int64_t r, const RowLanes& lanes) {
    const float* x = a.x + r * a.cols;
    const auto at = [=](int64_t i) { return x[i]; };
    const float length = sqrtf(lanes.dot_of(a.cols, at, at));
    if (lanes.lane == 0) a.y[r] = a.inverse ? 1.0f / length : length;
  });
}
void CudaDevice::column_sums(const ColumnSums& a) {
  each(stream_, a.cols, [=] __device__(int64_t c) {
    float sum = a.accumulate ? a.y[c] : 0.0f;
    for (int64_t r = 0; r < a.rows; ++r) sum += a.x[r * a.cols + c];
    a.y[c] = sum;
  });
}
void CudaDevice::column_squares(const ColumnSquares& a) {
  each(stream_, a.cols, [=] __device__(int64_t c) {
    double sum = a.y[c];
    for (int64_t r = 0; r < a.rows; ++r) {
      const double v = a.x[r * a.cols + c];
      sum += v * v;
    }
    a.y[c] = sum;
  });
}

void CudaDevice::sum(const Sum& a) {
  const int64_t chunks = (a.n + kSumChunk - 1) / kSumChunk;
  const CudaScratch<float> parts(memory_, chunks);
  float* part = parts.data();
  each_row(stream_, chunks, [=] __device__(int64_t c, const RowLanes& lanes) {
    const float* x = a.x + c * kSumChunk;
    const int64_t n = a.n - c * kSumChunk < kSumChunk ? a.n - c * kSumChunk : kSumChunk;
    const float sum = lanes.sum_of(n, [=](int64_t i) { return x[i]; });
    if (lanes.lane == 0) part[c] = sum;
  });
  add_in_order(stream_, part, chunks,
               [=] __device__(double total) { a.y[0] = static_cast<float>(total * a.factor); });
}
namespace {

__global__ void sum_squares_kernel(const __grid_constant__ cuda::Several<SumSquares> all) {
  const SumSquares& a = all.items[blockIdx.y];
  cuda::each_row_of_block((a.n + kSquaresChunk - 1) / kSquaresChunk, [&](int64_t c, const RowLanes& lanes) {
    const float* x = a.x + c * kSquaresChunk;
    const int64_t left = a.n - c * kSquaresChunk, n = left < kSquaresChunk ? left : kSquaresChunk;
    float sum = 0;
    if (n == kSquaresChunk) {  // the order of dot_of, with kLoads loads in flight
      constexpr int kLoads = 64;
      for (int64_t i = lanes.lane; i < n; i += kLoads * kLanes) {
        float v[kLoads];
#pragma unroll
        for (int j = 0; j < kLoads; ++j) v[j] = x[i + j * kLanes];
#pragma unroll
        for (int j = 0; j < kLoads; ++j) sum = madd(v[j], v[j], sum);
      }
      sum = lanes.fold(sum);
    } else {
      const auto at = [=](int64_t i) { return x[i]; };
      sum = lanes.dot_of(n, at, at);
    }
    if (lanes.lane == 0) a.y[c] = sum;
  });
}

}  // namespace

void CudaDevice::sum_squares(const SumSquaresList& all) {
  cuda::in_parts(all.items, all.count, [&](const auto& part, unsigned count, int64_t largest) {
    const auto blocks = static_cast<unsigned>(
        cuda::blocks_for((largest + kSquaresChunk - 1) / kSquaresChunk, cuda::kRowsPerBlock));
    cuda::launch(stream_, dim3(blocks, count), cuda::kRowsPerBlock * kLanes, 0, sum_squares_kernel, part);
  });
}

namespace {

__device__ inline float read_float(DType type, const void* data, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(data)[i];
  if (type == DType::kF16 || type == DType::kF16_64) return __half2float(static_cast<const __half*>(data)[i]);
  return __uint_as_float(static_cast<uint32_t>(static_cast<const uint16_t*>(data)[i]) << 16);  // bf16
}
bool is_plain(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kF16_64 || type == DType::kBF16;
}

}  // namespace

void CudaDevice::embed(const Embed& a) {
  if (!is_plain(a.type)) return cuda::embed_blocks(stream_, a);
  each(stream_, a.count * a.width, [=] __device__(int64_t i) {
    a.y[i] = read_float(a.type, a.table, a.ids[i / a.width] * a.width + i % a.width);
  });
}
void CudaDevice::decode(const Decode& a) {
  const int64_t count = a.rows * a.cols;
  if (!is_plain(a.type))
    return cuda::decode_block_rows(stream_, a.type, static_cast<const std::byte*>(a.x), a.y, count);
  each(stream_, count, [=] __device__(int64_t i) { a.y[i] = read_float(a.type, a.x, i); });
}

void CudaDevice::unfold(const Unfold& a) {
  const int64_t area = a.kernel * a.kernel, cols = a.channels * area;
  each(stream_, a.batch * a.out_h * a.out_w * cols, [=] __device__(int64_t i) {
    const int64_t row = i / cols, col = i % cols, n = row / (a.out_h * a.out_w), c = col / area;
    const int64_t y = row / a.out_w % a.out_h * a.stride - a.padding + col % area / a.kernel;
    const int64_t x = row % a.out_w * a.stride - a.padding + col % a.kernel;
    const bool inside = y >= 0 && y < a.height && x >= 0 && x < a.width;
    a.patches[i] = inside ? a.images[((n * a.channels + c) * a.height + y) * a.width + x] : 0.0f;
  });
}
// One thread per pixel; it sums the patches that cover the pixel, in patch order.
void CudaDevice::unfold_backward(const UnfoldBackward& a) {
  const int64_t area = a.kernel * a.kernel, cols = a.channels * area;
  each(stream_, a.batch * a.channels * a.height * a.width, [=] __device__(int64_t i) {
    const int64_t x = i % a.width, y = i / a.width % a.height, c = i / (a.width * a.height) % a.channels,
                  n = i / (a.width * a.height * a.channels);
    float sum = a.dimages[i];
    for (int64_t oy = 0; oy < a.out_h; ++oy) {
      const int64_t ky = y + a.padding - oy * a.stride;
      if (ky < 0 || ky >= a.kernel) continue;
      for (int64_t ox = 0; ox < a.out_w; ++ox) {
        const int64_t kx = x + a.padding - ox * a.stride;
        if (kx < 0 || kx >= a.kernel) continue;
        sum += a.dpatches[((n * a.out_h + oy) * a.out_w + ox) * cols + c * area + ky * a.kernel + kx];
      }
    }
    a.dimages[i] = sum;
  });
}

}  // namespace makar
