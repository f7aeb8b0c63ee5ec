// How a family's weight files name things, as a table read both ways.
//
// A rule joins one tensor of the file to one or several parameters of ours. Names are modules: ".weight",
// ".bias" and "" are tried after them. "{}" stands for the layer, "{e}" for the expert.
#pragma once
#include <string>
#include <vector>

#include "formats/safetensors_writer.h"
#include "models/spec.h"
#include "nn/parameter.h"

namespace makar {

struct NameRule {
  std::vector<std::string> ours;
  std::string theirs;
  // Several of ours make one tensor of theirs: cut into `groups`, each holding a slice of every part in turn
  // (fused query-key-value per head); 1 lays the parts end to end.
  int64_t groups = 1;
  bool transpose = false;  // the file holds [in, out]
  // Rows of each of so many heads lie in pairs in the file, (0, half), (1, half + 1), ...: what rotary
  // positions that turn neighbours need. 0: as ours.
  int64_t paired_heads = 0;
  float offset = 0;  // the file holds our value plus this
  NameRule(std::string o, std::string t, bool transposed = false)
      : ours{std::move(o)}, theirs(std::move(t)), transpose(transposed) {}
  NameRule(std::vector<std::string> o, std::string t, int64_t g, bool transposed = false)
      : ours(std::move(o)), theirs(std::move(t)), groups(g), transpose(transposed) {}
  NameRule paired(int64_t heads) && {
    paired_heads = heads;
    return std::move(*this);
  }
  NameRule plus(float value) && {
    offset = value;
    return std::move(*this);
  }
};

// One tensor of the file and the parameters it holds.
struct NamedSlice {
  std::string theirs;
  std::vector<Parameter*> ours;
  int64_t groups;
  bool transpose;
  int64_t paired_heads = 0;
  float offset = 0;
  Shape shape() const;  // of the file's tensor
};

// The rules for every layer and expert that `set` really has.
std::vector<NamedSlice> expand(const std::vector<NameRule>& rules, const ParameterSet& set);

// Cuts a tensor of the file into our parts, and back.
std::vector<Tensor> cut(const Tensor& theirs, const NamedSlice& slice);
Tensor join(const std::vector<Tensor>& ours, const NamedSlice& slice);

}  // namespace makar
