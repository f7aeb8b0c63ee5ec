// One row per op and case: the op, a plain double-precision reference, and the shapes and distributions of
// the inputs. op_table_test.cpp runs every row against the reference and finite differences, with accumulated
// gradients, and compares bits at several thread counts and on the fence device.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ops/context.h"

namespace makar::test {

// A tensor of the reference: the same values in double.
struct Array {
  Shape shape;
  std::vector<double> v;
  Array() = default;
  explicit Array(const Shape& s) : shape(s), v(static_cast<size_t>(s.count()), 0.0) {}
  double& operator[](int64_t i) { return v[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return v[static_cast<size_t>(i)]; }
  int64_t dim(int i) const { return shape[i]; }
  int64_t count() const { return static_cast<int64_t>(v.size()); }
};

struct OpInput {
  Shape shape;
  double spread = 1.0;  // values are normal with this deviation around `centre`
  double centre = 0.0;
  bool differentiable = true;
  DType type = DType::kF32;
  bool positive = false;  // |value| + 0.5
};

using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;

struct OpRow {
  std::string name;  // letters, digits and underscores
  std::vector<OpInput> inputs;
  std::function<Tensors(Context&, const Tensors&)> run;
  std::function<Arrays(const Arrays&)> reference;
  bool training = false;
  bool integers = false;         // activations are rounded to int8
  bool decoded_on_gpu = false;   // the CPU multiplies integers, the GPU decodes the weights
  double forward_limit = 2e-6;   // relative error of norms
  double gradient_limit = 1e-5;  // relative error of norms, against central differences of the reference
};

// Seed and step of every context the table runs in, for references that draw the same numbers.
constexpr uint64_t kSeed = 7, kStep = 3;

void add_matrix_rows(std::vector<OpRow>& rows);
void add_elementwise_rows(std::vector<OpRow>& rows);
void add_norm_rows(std::vector<OpRow>& rows);
void add_loss_rows(std::vector<OpRow>& rows);
void add_attention_rows(std::vector<OpRow>& rows);
void add_shape_rows(std::vector<OpRow>& rows);
void add_scan_rows(std::vector<OpRow>& rows);

const std::vector<OpRow>& op_table();

// Concatenated sequences of these lengths; queries and keys have the same rows.
inline std::vector<kernels::SequenceRows> ragged(const std::vector<int64_t>& lengths) {
  std::vector<kernels::SequenceRows> sequences;
  int64_t at = 0;
  for (const int64_t n : lengths) sequences.push_back({at, n, at, n, 0, 0}), at += n;
  return sequences;
}

}  // namespace makar::test
