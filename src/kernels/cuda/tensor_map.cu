#include "kernels/cuda/tensor_map.cuh"

#include <cudaTypedefs.h>

namespace makar::kernels::cuda {

CUtensorMap tensor_map(const Bf16* data, int64_t rows, int64_t k, int box_rows) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cuda_check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found),
               "cuTensorMapEncodeTiled");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
  }();
  check(encode != nullptr, "the driver has no tensor maps");
  CUtensorMap map;
  const cuuint64_t size[2] = {static_cast<cuuint64_t>(k), static_cast<cuuint64_t>(rows)}, stride[1] = {size[0] * sizeof(Bf16)};
  const cuuint32_t box[2] = {kBoxDepth, static_cast<cuuint32_t>(box_rows)}, step[2] = {1, 1};
  const CUresult status = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<Bf16*>(data), size, stride, box, step,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) check(false, "cuTensorMapEncodeTiled: status " + std::to_string(static_cast<int>(status)));
  return map;
}

}  // namespace makar::kernels::cuda
