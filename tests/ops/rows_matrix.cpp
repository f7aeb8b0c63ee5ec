// Rows of the op table: products, embedding, convolution.
#include "kernels/decode_blocks.h"
#include "kernels/quant_blocks.h"
#include "ops/conv.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/op_table.h"

namespace makar::test {
namespace {

// a [m, k] times b [n, k] transposed, plus bias.
Array product(const Array& a, const Array& b, const Array* bias, const Shape& shape) {
  const int64_t k = a.dim(-1), m = a.count() / k, n = b.count() / k;
  Array y(shape);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias ? (*bias)[j] : 0.0;
      for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[j * k + p];
      y[i * n + j] = sum;
    }
  return y;
}

Array transposed(const Array& a) {
  Array t({a.dim(1), a.dim(0)});
  for (int64_t i = 0; i < a.dim(0); ++i)
    for (int64_t j = 0; j < a.dim(1); ++j) t[j * a.dim(0) + i] = a[i * a.dim(1) + j];
  return t;
}

void add_linear(std::vector<OpRow>& rows, const Shape& x, int64_t out, bool bias, DType type = DType::kF32) {
  std::string name = "linear_" + makar::name(type) + (bias ? "_bias" : "");
  for (const int64_t d : x) name += "_" + std::to_string(d);
  OpRow row{name + "_to_" + std::to_string(out), {{x}, {{out, x[-1]}}}, {}, {}};
  row.inputs[1].type = type, row.inputs[1].differentiable = type == DType::kF32;
  if (bias) row.inputs.push_back({{out}});
  row.run = [bias](Context& ctx, const Tensors& in) {
    return Tensors{ops::linear(ctx, in[0], in[1], bias ? in[2] : Tensor())};
  };
  row.reference = [bias, x, out](const Arrays& in) {
    Shape shape = x;
    shape[-1] = out;
    return Arrays{product(in[0], in[1], bias ? &in[2] : nullptr, shape)};
  };
  rows.push_back(row);
}

void add_packed(std::vector<OpRow>& rows, DType type) {
  OpRow row{"linear_packed_" + makar::name(type), {{{13, 40}}, {{29, 40}}, {{29}}}, {}, {}};
  row.inputs[1].type = type, row.inputs[1].differentiable = false;
  row.run = [type](Context& ctx, const Tensors& in) {
    const auto packed = ctx.device.pack({in[1].address(), type, 40, 1}, 29, 40);
    return Tensors{ops::linear(ctx, in[0], in[1], in[2], packed.get())};
  };
  row.reference = [](const Arrays& in) { return Arrays{product(in[0], in[1], &in[2], {13, 29})}; };
  rows.push_back(row);
}

// A weight of a block type is not one of the row's inputs: it consists of blocks and is not trained.
struct BlockWeight {
  Tensor value;
  Array decoded;
  BlockWeight(DType type, int64_t out, int64_t in) : decoded({out, in}) {
    const auto bytes = kernels::test::random_blocks(type, out * in, 21);
    value = Tensor::empty({out, in}, type);
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<uint8_t*>(value.raw()));
    const Tensor f = Tensor::empty({out, in});
    kernels::decode_blocks(type, value.raw(), out * in, f.f32());
    for (int64_t i = 0; i < decoded.count(); ++i) decoded[i] = f.f32()[i];
  }
};

// Activations are rounded to int8: 127 steps leave an error of up to 1 % of the norm. The gradient is that of
// the dequantized weight.
constexpr double kInt8Limit = 1e-2;

void add_block_linear(std::vector<OpRow>& rows, DType type, bool packed) {
  const int64_t m = packed ? 13 : 3, in = 256, out = 29;
  const BlockWeight w(type, out, in);
  OpRow row{(packed ? "linear_packed_" : "linear_") + makar::name(type), {{{m, in}}, {{out}}}, {}, {}};
  row.forward_limit = kInt8Limit, row.integers = true, row.decoded_on_gpu = type == DType::kF16_64;
  row.run = [=](Context& ctx, const Tensors& x) {
    const Tensor value = w.value.to(ctx.device.memory());
    const auto packed_weight = packed ? ctx.device.pack({value.address(), type, in, 1}, out, in) : nullptr;
    return Tensors{ops::linear(ctx, x[0], value, x[1], packed_weight.get())};
  };
  row.reference = [=](const Arrays& x) { return Arrays{product(x[0], w.decoded, &x[1], {m, out})}; };
  rows.push_back(row);
}

void add_embedding(std::vector<OpRow>& rows, const std::string& name, int64_t n, int64_t width,
                   const std::vector<int64_t>& ids, DType type) {
  OpRow row{name, {{{n, width}}}, {}, {}};
  row.inputs[0].type = type, row.inputs[0].differentiable = type == DType::kF32;
  row.run = [ids](Context& ctx, const Tensors& in) { return Tensors{ops::embedding(ctx, in[0], ids)}; };
  row.reference = [ids, width](const Arrays& in) {
    Array y({static_cast<int64_t>(ids.size()), width});
    for (size_t i = 0; i < ids.size(); ++i)
      for (int64_t c = 0; c < width; ++c) y[static_cast<int64_t>(i) * width + c] = in[0][ids[i] * width + c];
    return Arrays{y};
  };
  rows.push_back(row);
}

// The definition of a convolution, without unfolding.
void add_conv(std::vector<OpRow>& rows, const std::string& name, const Shape& x, int64_t out, int64_t kernel,
              int64_t stride, int64_t padding, bool bias) {
  OpRow row{name, {{x}, {{out, x[1], kernel, kernel}}}, {}, {}};
  if (bias) row.inputs.push_back({{out}});
  row.run = [=](Context& ctx, const Tensors& in) {
    return Tensors{ops::conv2d_rows(ctx, in[0], in[1], bias ? in[2] : Tensor(), stride, padding)};
  };
  row.reference = [=](const Arrays& in) {
    const int64_t batch = x[0], channels = x[1], height = x[2], width = x[3];
    const int64_t oh = (height + 2 * padding - kernel) / stride + 1,
                  ow = (width + 2 * padding - kernel) / stride + 1;
    Array y({batch * oh * ow, out});
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t r = 0; r < oh; ++r)
        for (int64_t c = 0; c < ow; ++c)
          for (int64_t o = 0; o < out; ++o) {
            double sum = bias ? in[2][o] : 0.0;
            for (int64_t ch = 0; ch < channels; ++ch)
              for (int64_t i = 0; i < kernel; ++i)
                for (int64_t j = 0; j < kernel; ++j) {
                  const int64_t py = r * stride + i - padding, px = c * stride + j - padding;
                  if (py < 0 || py >= height || px < 0 || px >= width) continue;
                  sum += in[0][((b * channels + ch) * height + py) * width + px] *
                         in[1][((o * channels + ch) * kernel + i) * kernel + j];
                }
            y[((b * oh + r) * ow + c) * out + o] = sum;
          }
    return Arrays{y};
  };
  rows.push_back(row);
}

}  // namespace

void add_matrix_rows(std::vector<OpRow>& rows) {
  for (const int64_t m : {1, 2, 3, 5, 7, 8, 9, 16, 31, 33, 64, 70}) add_linear(rows, {m, 37}, 29, m % 2 == 1);
  add_linear(rows, {2, 3, 24}, 48, true);
  add_linear(rows, {9, 1}, 1, false);
  add_linear(rows, {70, 130}, 200, true);
  for (const DType type : {DType::kF16, DType::kBF16}) {
    add_linear(rows, {1, 37}, 29, false, type);
    add_linear(rows, {17, 64}, 50, true, type);
  }
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) add_packed(rows, type);
  for (const DType type : kernels::test::block_types())
    for (const bool packed : {false, true}) add_block_linear(rows, type, packed);

  rows.push_back({"matmul",
                  {{{11, 19}}, {{19, 23}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::matmul(ctx, in[0], in[1])}; },
                  [](const Arrays& in) {
                    return Arrays{product(in[0], transposed(in[1]), nullptr, {11, 23})};
                  }});
  rows.push_back(
      {"matmul_transposed",
       {{{40, 19}}, {{23, 19}}},
       [](Context& ctx, const Tensors& in) { return Tensors{ops::matmul(ctx, in[0], in[1], true)}; },
       [](const Arrays& in) {
         return Arrays{product(in[0], in[1], nullptr, {40, 23})};
       }});
  rows.push_back({"matmul_with_itself",
                  {{{9, 9}}},
                  [](Context& ctx, const Tensors& in) { return Tensors{ops::matmul(ctx, in[0], in[0])}; },
                  [](const Arrays& in) {
                    return Arrays{product(in[0], transposed(in[0]), nullptr, {9, 9})};
                  }});

  add_embedding(rows, "embedding", 7, 5, {3, 3, 0, 6, 3}, DType::kF32);
  add_embedding(rows, "embedding_f16", 7, 5, {3, 1}, DType::kF16);
  add_embedding(rows, "embedding_bf16", 7, 5, {3, 1}, DType::kBF16);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 90; ++i) ids.push_back(i * i % 31);
  add_embedding(rows, "embedding_wide", 31, 200, ids, DType::kF32);

  add_conv(rows, "conv_patches", {2, 3, 8, 8}, 5, 4, 4, 0, true);
  add_conv(rows, "conv_padded", {2, 2, 7, 6}, 4, 3, 2, 1, false);
  add_conv(rows, "conv_overlapping", {1, 3, 20, 20}, 6, 3, 1, 1, true);
}

}  // namespace makar::test
