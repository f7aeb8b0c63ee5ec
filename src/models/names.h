// The tensor names of a family's weight files, as one table for loading and saving.
//
// A rule maps one tensor of the file to one or several parameters. Names are modules: ".weight", ".bias" and
// "" are tried as suffixes. "{}" is the layer, "{e}" the expert; with "{e}" only in the names of the
// parameters, the file has one tensor of all experts, [experts, ...].
#pragma once
#include <string>
#include <vector>

#include "formats/safetensors_writer.h"
#include "models/spec.h"
#include "nn/parameter.h"

namespace makar {

struct NameRule {
  std::vector<std::string> parameter_names;
  std::string tensor_name;  // in the file
  // Several parameters in one tensor: split into `groups`, each with a slice of every parameter in turn
  // (query-key-value fused per head); 1 concatenates the parameters.
  int64_t groups = 1;
  bool transpose = false;  // the file stores [in, out]
  // With this many heads, the file stores the rows of each head in pairs, (0, half), (1, half + 1), ..., for
  // rotary positions that rotate adjacent pairs. 0: no reordering.
  int64_t paired_heads = 0;
  float offset = 0;          // the file stores the parameter plus this value
  int64_t skipped_rows = 0;  // the file does not store the first rows
  int64_t split_heads = 0;   // > 0: the file splits the last dimension of a matrix into heads
  // > 0: the file has one matrix per head, [heads, rows / heads, columns]; with `transpose`, each of these
  // matrices is transposed.
  int64_t stacked_heads = 0;
  int64_t file_rows = 0;      // > 0: the file has a matrix with this many rows, whatever the parameter's rank
  bool negative_exp = false;  // the file stores -exp of the parameter (Mamba's A)
  NameRule(std::string parameter, std::string tensor, bool transposed = false)
      : parameter_names{std::move(parameter)}, tensor_name(std::move(tensor)), transpose(transposed) {}
  NameRule(std::vector<std::string> parameters, std::string tensor, int64_t group_count,
           bool transposed = false)
      : parameter_names(std::move(parameters)),
        tensor_name(std::move(tensor)),
        groups(group_count),
        transpose(transposed) {}
  NameRule paired(int64_t heads) && {
    paired_heads = heads;
    return std::move(*this);
  }
  NameRule plus(float value) && {
    offset = value;
    return std::move(*this);
  }
  NameRule with_heads(int64_t count) && {
    split_heads = count;
    return std::move(*this);
  }
  NameRule stacked(int64_t heads) && {
    stacked_heads = heads;
    return std::move(*this);
  }
  NameRule as_matrix(int64_t rows) && {
    file_rows = rows;
    return std::move(*this);
  }
  NameRule as_negative_exp() && {
    negative_exp = true;
    return std::move(*this);
  }
  NameRule without_rows(int64_t count) && {
    skipped_rows = count;
    return std::move(*this);
  }
};

using NameTable = std::vector<NameRule> (*)(const ModelSpec& spec);
// `rules` with `changes`, which replace the rules for the same parameters.
std::vector<NameRule> with_names(std::vector<NameRule> rules, const std::vector<NameRule>& changes);

// One tensor of the file and the parameters it contains.
struct NamedSlice {
  std::string tensor_name;
  std::vector<Parameter*> parameters;
  int64_t groups;
  bool transpose;
  int64_t paired_heads = 0;
  float offset = 0;
  int64_t skipped_rows = 0;
  int64_t split_heads = 0;
  int64_t stacked_heads = 0;
  int64_t file_rows = 0;
  bool negative_exp = false;
  int64_t experts = 0;  // > 0: the tensor's first dimension; `parameters` has equally many per expert
  Shape shape() const;  // of the tensor in the file
};

// Applies the rules to every layer and expert that `set` has.
std::vector<NamedSlice> expand(const std::vector<NameRule>& rules, const ParameterSet& set);

// Splits a tensor of the file into parameters, and back.
std::vector<Tensor> split_tensor(const Tensor& stored, const NamedSlice& slice);
Tensor join_tensors(const std::vector<Tensor>& parts, const NamedSlice& slice);

}  // namespace makar
