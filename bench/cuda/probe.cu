// Measures what kernels for the GPU rely on: whether all forms of a matrix product give the same bits, how
// long a dependent step takes, how fast memory is read, what a launch costs.
// bench/cuda_probe.sh builds and runs it.
#include <cooperative_groups.h>
#include <cublasLt.h>

#include "products.cuh"

namespace {

// --- cuBLASLt, column-major: c^T[n, m] = w[n, k] x[m, k]^T, without split-K ---
template <class T, class Out>
struct Library {
  Library() { cublasLtCreate(&handle); }
  bool run(const T* x, const T* w, Out* c, int m, int n, int k) {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulPreference_t preference;
    const cudaDataType_t type = std::is_same_v<T, __half> ? CUDA_R_16F : CUDA_R_16BF;
    cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    cublasLtMatrixLayoutCreate(&a, type, k, n, k);
    cublasLtMatrixLayoutCreate(&b, type, k, m, k);
    cublasLtMatrixLayoutCreate(&out, sizeof(Out) == 4 ? CUDA_R_32F : CUDA_R_16BF, n, m, n);
    cublasLtMatmulPreferenceCreate(&preference);
    const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
    const size_t bytes = 0;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none,
                                         sizeof none);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                         sizeof bytes);
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    cublasLtMatmulAlgoGetHeuristic(handle, op, a, b, out, out, preference, 1, &found, &count);
    const float one = 1, zero = 0;
    const bool ok = count > 0 && cublasLtMatmul(handle, op, &one, w, a, x, b, &zero, c, out, c, out,
                                                &found.algo, nullptr, 0, nullptr) == CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(a), cublasLtMatrixLayoutDestroy(b), cublasLtMatrixLayoutDestroy(out);
    cublasLtMatmulDescDestroy(op);
    return ok;
  }
  cublasLtHandle_t handle;
};

template <class T>
void bits(const char* name) {
  Library<T, float> library;
  for (int k : {128, 768, 2048, 5632, 8192})
    for (int m : {1, 8, 64, 200, 512, 2048}) {
      const int n = 2048;
      Buffer<T> x(size_t(m) * k), w(size_t(n) * k);
      Buffer<float> c(size_t(m) * n);
      randomize(x, 1 + k), randomize(w, 2 + m);
      auto result = [&](auto&& run) {
        CUDA_CHECK(cudaMemset(c.data, 0xFF, c.count * 4));
        run();
        CUDA_CHECK(cudaDeviceSynchronize());
        return c.host();
      };
      const auto plain = result([&] {
        product_plain<T><<<dim3(n / 8, (m + 15) / 16), 32>>>(x.data, w.data, c.data, m, n, k);
        CUDA_CHECK(cudaGetLastError());
      });
      const auto many = result([&] { run_many<T, float>(x.data, w.data, c.data, m, n, k); });
      const auto turns = result([&] { run_turns<T, float>(x.data, w.data, c.data, m, n, k); });
      std::printf("bits %s m %4d k %4d: wgmma %zu and %zu", name, m, k, differing(plain, many),
                  differing(plain, turns));
      if (m <= 64) {
        const auto few = result([&] {
          if (m <= 8)
            run_few<8, T>(x.data, w.data, c.data, m, n, k);
          else
            run_few<64, T>(x.data, w.data, c.data, m, n, k);
        });
        std::printf(", few rows %zu", differing(plain, few));
      }
      bool ran = false;
      const auto lt = result([&] { ran = library.run(x.data, w.data, c.data, m, n, k); });
      if (ran) std::printf(", cuBLASLt without split-K %zu", differing(plain, lt));
      std::printf(" of %zu values differ from mma.sync\n", plain.size());
    }
}

// --- dependent steps, in cycles ---
__global__ void mma_chain(float* out, long long* cycles, int steps) {
  float d[4] = {0, 0, 0, 0};
  const uint32_t a[4] = {threadIdx.x, 0, 0, 0}, b[2] = {0, threadIdx.x};
  const long long begin = clock64();
  for (int i = 0; i < steps; i++) mma_m16n8k16<__nv_bfloat16>(d, a, b);
  if (threadIdx.x == 0) *cycles = clock64() - begin;
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
template <int kColumns>
__global__ __launch_bounds__(128, 1) void wgmma_chain(float* out, long long* cycles, int steps) {
  __shared__ alignas(1024) uint8_t tiles[(64 + 256) * 128];
  for (int i = threadIdx.x; i < int(sizeof tiles); i += 128) tiles[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[kColumns / 16][8] = {};
  const uint64_t a = tile_descriptor(tiles), b = tile_descriptor(tiles + 64 * 128);
  wgmma_fence();
  wgmma<kColumns, __nv_bfloat16>(d, a, b);
  wgmma_commit();
  wgmma_wait<0>();
  const long long begin = clock64();
  wgmma_fence();
#pragma unroll 1
  for (int i = 0; i < steps; i += 16)
#pragma unroll
    for (int j = 0; j < 16; j++) wgmma<kColumns, __nv_bfloat16>(d, a, b);
  wgmma_commit();
  wgmma_wait<0>();
  if (threadIdx.x == 0) *cycles = clock64() - begin;
  float sum = 0;
#pragma unroll
  for (auto& row : d)
    for (float value : row) sum += value;
  out[threadIdx.x] = sum;
}
__global__ void fma_chain(float* out, long long* cycles, int steps) {
  float d = threadIdx.x, a = out[0];
  const long long begin = clock64();
#pragma unroll 16
  for (int i = 0; i < steps; i++) d = __fmaf_rn(d, a, 1.0f);
  if (threadIdx.x == 0) *cycles = clock64() - begin;
  out[threadIdx.x] = d;
}
void latency() {
  Buffer<float> out(256);
  Buffer<long long> cycles(1);
  const int steps = 4096;
  auto report = [&](const char* name, auto&& launch) {
    for (int i = 0; i < 2; i++) launch();
    CUDA_CHECK(cudaDeviceSynchronize());
    std::printf("latency %s: %.1f cycles per dependent step\n", name, double(cycles.host()[0]) / steps);
  };
  report("fma", [&] { fma_chain<<<1, 32>>>(out.data, cycles.data, steps); });
  report("mma.sync m16n8k16", [&] { mma_chain<<<1, 32>>>(out.data, cycles.data, steps); });
  report("wgmma m64n128k16", [&] { wgmma_chain<128><<<1, 128>>>(out.data, cycles.data, steps); });
  report("wgmma m64n256k16", [&] { wgmma_chain<256><<<1, 128>>>(out.data, cycles.data, steps); });
}

// --- memory ---
__global__ void read_all(const uint4* data, size_t count, uint32_t* out) {
  uint32_t sum = 0;
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  for (; i + 7 * stride < count; i += 8 * stride) {
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = __ldcs(data + i + j * stride);
#pragma unroll
    for (int j = 0; j < 8; j++) sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  if (sum == 0x12345) *out = sum;
}
void memory() {
  const size_t bytes = size_t(4) << 30;
  Buffer<uint4> from(bytes / 16), to(bytes / 16);
  Buffer<uint32_t> out(1);
  CUDA_CHECK(cudaMemset(from.data, 7, bytes));
  const double read =
      median_ms([&] { read_all<<<kMultiprocessors * 8, 512>>>(from.data, from.count, out.data); });
  const double copy =
      median_ms([&] { cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToDevice); });
  std::printf("memory read %.2f TB/s, copy %.2f TB/s (read + written)\n", bytes / read / 1e9,
              2 * bytes / copy / 1e9);
}

// --- launches ---
__global__ void nothing(int* out) {
  if (out) *out = 1;
}
__global__ void nothing_dependent(int* out) {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (out) *out = 1;
}
__global__ void grid_syncs(int rounds) {
  auto grid = cooperative_groups::this_grid();
  for (int i = 0; i < rounds; i++) grid.sync();
}
void launches() {
  const int count = 1000, blocks = kMultiprocessors;
  int* none = nullptr;
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  auto plain = [&] {
    for (int i = 0; i < count; i++) nothing<<<blocks, 128, 0, stream>>>(none);
  };
  auto dependent = [&] {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks), config.blockDim = dim3(128), config.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute, config.numAttrs = 1;
    for (int i = 0; i < count; i++) CUDA_CHECK(cudaLaunchKernelEx(&config, nothing_dependent, none));
  };
  auto graph_of = [&](auto&& body) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    body();
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
  };
  auto timed = [&](const char* name, auto&& body) {
    cudaEvent_t begin, end;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < 12; i++) {
      CUDA_CHECK(cudaEventRecord(begin, stream));
      body();
      CUDA_CHECK(cudaEventRecord(end, stream));
      CUDA_CHECK(cudaEventSynchronize(end));
      float ms;
      CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (i > 1) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    std::printf("launch %s: %.2f us per kernel of %d blocks\n", name, times[5] * 1000 / count, blocks);
  };
  timed("stream", plain);
  timed("stream, programmatic dependent", dependent);
  const cudaGraphExec_t plain_graph = graph_of(plain), dependent_graph = graph_of(dependent);
  timed("graph", [&] { cudaGraphLaunch(plain_graph, stream); });
  timed("graph, programmatic dependent", [&] { cudaGraphLaunch(dependent_graph, stream); });
  int rounds = count;
  void* arguments[] = {&rounds};
  timed("grid barrier of a cooperative kernel", [&] {
    CUDA_CHECK(cudaLaunchCooperativeKernel(grid_syncs, dim3(blocks), dim3(256), arguments, 0, stream));
  });
}

// --- products: speed ---
void speed() {
  using T = __nv_bfloat16;
  Library<T, T> library;
  const int shapes[][3] = {{8192, 8192, 8192}, {32768, 768, 768},   {32768, 2304, 768}, {32768, 3072, 768},
                           {32768, 768, 3072}, {32768, 50304, 768}, {4096, 2048, 2048}, {4096, 5632, 2048},
                           {4096, 2048, 5632}, {512, 5632, 2048}};
  for (const auto& [m, n, k] : shapes) {
    Buffer<T> x(size_t(m) * k), w(size_t(n) * k), c(size_t(m) * n);
    randomize(x, 1), randomize(w, 2);
    const double wgmma_ms = median_ms([&] { run_many<T, T>(x.data, w.data, c.data, m, n, k); });
    const double turns_ms = median_ms([&] { run_turns<T, T>(x.data, w.data, c.data, m, n, k); });
    const double library_ms = median_ms([&] { library.run(x.data, w.data, c.data, m, n, k); });
    const double flops = 2.0 * m * n * k / 1e9;
    std::printf(
        "product m %d n %d k %d: wgmma %.0f TFLOP/s, alternating %.0f, cuBLASLt without split-K %.0f, ratio "
        "%.2f\n",
        m, n, k, flops / wgmma_ms, flops / turns_ms, flops / library_ms,
        library_ms / std::min(wgmma_ms, turns_ms));
  }
  // Few rows, in a graph; weights are rotated among copies beyond the L2 cache (60 MB).
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreate(&stream));
  const int few[][2] = {{2048, 2048}, {2560, 2048}, {11264, 2048}, {2048, 5632}, {32000, 2048}};
  for (const auto& [n, k] : few)
    for (int m : {1, 8, 64}) {
      const int copies = std::max<int>(2, 600'000'000 / (n * k * 2));
      Buffer<T> x(size_t(m) * k), w(size_t(n) * k * copies);
      Buffer<float> c(size_t(m) * n);
      randomize(x, 1), randomize(w, 2);
      CUDA_CHECK(cudaDeviceSynchronize());
      cudaGraph_t graph;
      cudaGraphExec_t exec;
      CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
      for (int i = 0; i < copies; i++) {
        const T* weights = w.data + size_t(n) * k * i;
        if (m <= 8)
          run_few<8, T>(x.data, weights, c.data, m, n, k, stream);
        else
          run_few<64, T>(x.data, weights, c.data, m, n, k, stream);
      }
      CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
      CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
      const double ms = median_ms([&] { CUDA_CHECK(cudaGraphLaunch(exec, nullptr)); }) / copies;
      std::printf("few rows m %d n %d k %d: %.2f us, %.2f TB/s of weights\n", m, n, k, ms * 1000,
                  2.0 * n * k / ms / 1e9);
    }
}

}  // namespace

int main() {
  cudaDeviceProp device;
  CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
  std::printf("%s, %d multiprocessors, L2 %d MB\n", device.name, device.multiProcessorCount,
              device.l2CacheSize >> 20);
  memory();
  latency();
  launches();
  bits<__nv_bfloat16>("bf16");
  bits<__half>("fp16");
  speed();
}
