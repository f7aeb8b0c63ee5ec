// Weights quantized by other programs: one matrix as several tensors (integers, zero points, scales). The
// scheme is in config.json's quantization_config; a prequantized matrix is presented as one tensor [out, in].
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/config.h"
#include "formats/tensor_file.h"

namespace makar {

enum class PrequantizedMethod { kGptq, kAwq, kFp8, kMxfp4, kBitsAndBytes };

struct PrequantizedScheme {
  PrequantizedMethod method = PrequantizedMethod::kGptq;
  int64_t bits = 4;
  int64_t group = 128;         // inputs that share a scale; -1: the whole row
  bool zeros_less_one = true;  // GPTQ: zero points are stored minus one (checkpoint_format "gptq")
  int64_t block_rows = 0, block_columns = 0;  // FP8: block with one scale; 0: whole matrix
};

// Empty if the config has no quantization_config.
Result<std::optional<PrequantizedScheme>> read_prequantized_scheme(const Config& config);

// The tensors of one prequantized matrix, by their role: "qweight", "scales", ...
struct PrequantizedMatrix {
  std::map<std::string, std::string> parts;  // role to name in the files
  Shape shape;                               // of the decoded matrix
  std::string type;                          // for display: "gptq, 4 bits"
};

using FindEntry = std::function<const TensorFile::Entry*(const std::string& name)>;
using PrequantizedMatrices = std::map<std::string, PrequantizedMatrix>;  // by the name of the decoded matrix

// Finds the prequantized matrices among the tensors of the files and checks the types and shapes of their
// parts.
Result<PrequantizedMatrices> find_prequantized(const PrequantizedScheme& scheme,
                                               const std::vector<std::string>& names, const FindEntry& entry,
                                               const std::string& place);

// The shape of a 4-bit bitsandbytes matrix, from its quant_state.
Result<Shape> four_bit_shape(const Tensor& state, const std::string& place);

// Decodes a matrix without loss: to Q4_0 or Q8_0 where its groups are whole blocks of these types, to bf16
// where that holds every value, else to f32. `parts` are the tensors by role.
Result<Tensor> decode_prequantized(const PrequantizedScheme& scheme, const PrequantizedMatrix& matrix,
                                   const std::map<std::string, Tensor>& parts, const std::string& place);

}  // namespace makar
