#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {
namespace {

using kernels::Operand;
using kernels::ProductBf16;

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// The library functions that are used.
#define MAKAR_CUBLAS_FUNCTIONS(X)         \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoConfigGetAttribute)

struct Library {
#define MAKAR_MEMBER(name) decltype(&::name) name = nullptr;
  MAKAR_CUBLAS_FUNCTIONS(MAKAR_MEMBER)
#undef MAKAR_MEMBER

  bool load() {
    const char* setting = std::getenv("MAKAR_CUBLAS");
    if (setting && !std::strcmp(setting, "0")) return false;
    void* handle = nullptr;
    for (const char* file :
         {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so"})
      if (!handle) handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return false;
#define MAKAR_LOAD(function) \
  if (!(function = reinterpret_cast<decltype(function)>(dlsym(handle, #function)))) return false;
    MAKAR_CUBLAS_FUNCTIONS(MAKAR_LOAD)
#undef MAKAR_LOAD
    return true;
  }
};

void expect(cublasStatus_t status, const char* what) {
  check(status == CUBLAS_STATUS_SUCCESS,
        std::string(what) + ": cuBLASLt status " + std::to_string(static_cast<int>(status)));
}

// A prepared product: everything but the addresses.
struct Plan {
  bool usable = false;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algo{};
};

class LoadedCublas : public Cublas {
 public:
  LoadedCublas(const Library& library, cudaStream_t stream, Memory& memory)
      : lib_(library), stream_(stream), memory_(memory), workspace_(memory.allocate(kWorkspaceBytes)) {
    expect(lib_.cublasLtCreate(&handle_), "cublasLtCreate");
  }
  ~LoadedCublas() override {
    for (auto& [key, plan] : plans_) {
      for (const auto layout : {plan.a, plan.b, plan.c}) lib_.cublasLtMatrixLayoutDestroy(layout);
      lib_.cublasLtMatmulDescDestroy(plan.desc);
    }
    lib_.cublasLtDestroy(handle_);
    memory_.deallocate(workspace_, kWorkspaceBytes);
  }
  LoadedCublas(const LoadedCublas&) = delete;
  LoadedCublas& operator=(const LoadedCublas&) = delete;

  bool product(const ProductBf16& p, int64_t chunk, int64_t chunks) override {
    const auto aligned = [](const Operand& x) {
      return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
             (x.k_stride == 1 ? x.row_stride : x.k_stride) % 8 == 0;
    };
    if (p.m <= 0 || p.n <= 0 || p.k <= 0 || !aligned(p.a) || !aligned(p.b) || p.ldc % 8 != 0 || p.n % 8 != 0 ||
        reinterpret_cast<uintptr_t>(p.c) % 16 != 0 || reinterpret_cast<uintptr_t>(p.bias) % 16 != 0)
      return false;
    const Plan& plan = plan_of(p, chunk, chunks);
    if (!plan.usable) return false;
    if (p.bias)
      expect(lib_.cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias,
                                                 sizeof(p.bias)),
             "bias");
    const float alpha = 1.0f, beta = p.accumulate ? 1.0f : 0.0f;
    expect(lib_.cublasLtMatmul(handle_, plan.desc, &alpha, p.b.data, plan.a, p.a.data, plan.b, &beta, p.c,
                               plan.c, p.c, plan.c, &plan.algo, workspace_, kWorkspaceBytes, stream_),
           "cublasLtMatmul");
    return true;
  }

 private:
  using PlanKey = std::array<int64_t, 13>;

  const Plan& plan_of(const ProductBf16& p, int64_t chunk, int64_t chunks) {
    const PlanKey key = {p.m,
                         p.n,
                         p.k,
                         p.a.row_stride,
                         p.a.k_stride,
                         p.b.row_stride,
                         p.b.k_stride,
                         p.ldc,
                         static_cast<int64_t>(p.type),
                         p.accumulate,
                         p.bias != nullptr,
                         chunk,
                         chunks};
    const auto found = plans_.find(key);
    return found != plans_.end() ? found->second : plans_.emplace(key, make_plan(p, chunk, chunks)).first->second;
  }

  // cuBLAS is column-major: it computes C^T = B A^T, so B is its first operand.
  Plan make_plan(const ProductBf16& p, int64_t chunk, int64_t chunks) {
    Plan plan;
    expect(lib_.cublasLtMatmulDescCreate(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
           "cublasLtMatmulDescCreate");
    const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
      expect(lib_.cublasLtMatmulDescSetAttribute(plan.desc, name, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
    };
    const cublasOperation_t b_operation = p.b.k_stride == 1 ? CUBLAS_OP_T : CUBLAS_OP_N,
                            a_operation = p.a.k_stride == 1 ? CUBLAS_OP_N : CUBLAS_OP_T;
    set(CUBLASLT_MATMUL_DESC_TRANSA, b_operation);
    set(CUBLASLT_MATMUL_DESC_TRANSB, a_operation);
    if (p.bias) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    }
    const int64_t k = chunk > 0 ? chunk : p.k;
    const auto layout = [&](cublasLtMatrixLayout_t& to, const Operand& x, int64_t rows) {
      if (x.k_stride == 1)
        expect(lib_.cublasLtMatrixLayoutCreate(&to, CUDA_R_16BF, k, rows, x.row_stride), "layout");
      else
        expect(lib_.cublasLtMatrixLayoutCreate(&to, CUDA_R_16BF, rows, k, x.k_stride), "layout");
      if (chunk > 0) batch(to, chunks, chunk * x.k_stride);
    };
    layout(plan.a, p.b, p.n);
    layout(plan.b, p.a, p.m);
    expect(lib_.cublasLtMatrixLayoutCreate(&plan.c, p.type == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF, p.n,
                                           p.m, p.ldc),
           "layout");
    if (chunk > 0) batch(plan.c, chunks, p.m * p.ldc);
    choose_algorithm(plan);
    return plan;
  }
  void batch(cublasLtMatrixLayout_t layout, int64_t count, int64_t stride) {
    const auto n = static_cast<int32_t>(count);
    expect(lib_.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof(n)),
           "batch");
    expect(lib_.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                 sizeof(stride)),
           "batch");
  }
  // The first algorithm that does not split k: all of them add k in the same order (decision 0010).
  void choose_algorithm(Plan& plan) {
    cublasLtMatmulPreference_t preference;
    expect(lib_.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
    const size_t workspace = kWorkspaceBytes;
    expect(lib_.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                     &schemes, sizeof(schemes)),
           "preference");
    expect(lib_.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                     &workspace, sizeof(workspace)),
           "preference");
    cublasLtMatmulHeuristicResult_t results[16];
    int count = 0;
    const cublasStatus_t status = lib_.cublasLtMatmulAlgoGetHeuristic(
        handle_, plan.desc, plan.a, plan.b, plan.c, plan.c, preference, 16, results, &count);
    lib_.cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count && !plan.usable; ++i) {
      uint32_t split = 1;
      size_t written = 0;
      lib_.cublasLtMatmulAlgoConfigGetAttribute(&results[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split,
                                                sizeof(split), &written);
      if (results[i].state != CUBLAS_STATUS_SUCCESS || split > 1) continue;
      plan.algo = results[i].algo;
      plan.usable = true;
    }
  }

  Library lib_;
  cudaStream_t stream_;
  Memory& memory_;
  std::byte* workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<PlanKey, Plan> plans_;
};

}  // namespace

std::unique_ptr<Cublas> Cublas::open(cudaStream_t stream, Memory& memory) {
  Library library;
  if (!library.load()) return nullptr;
  return std::make_unique<LoadedCublas>(library, stream, memory);
}

}  // namespace makar
