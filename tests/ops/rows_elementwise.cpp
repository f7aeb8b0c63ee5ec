// Rows of the op table: elementwise arithmetic, activations, dropout.
#include <cmath>

#include "kernels/cpu_device.h"
#include "ops/elementwise.h"
#include "ops/op_table.h"

namespace makar::test {
namespace {

using ops::Activation;

// f of the elements of a and b; b repeats over the leading dimensions of a.
template <class F>
Array map_pairs(const Array& a, const Array& b, F&& f) {
  Array y(a.shape);
  for (int64_t i = 0; i < a.count(); ++i) y[i] = f(a[i], b[i % b.count()]);
  return y;
}
template <class F>
Array map_elements(const Array& a, F&& f) {
  return map_pairs(a, a, [&](double x, double) { return f(x); });
}

using Binary = Tensor (*)(Context&, const Tensor&, const Tensor&);

void add_binary(std::vector<OpRow>& rows, const std::string& name, Binary op, double (*f)(double, double),
                const Shape& a, const Shape& b, bool positive = false) {
  OpRow row{name, {{a}, {b}}, {}, {}};
  row.inputs[1].positive = positive;
  row.run = [op](Context& ctx, const Tensors& in) { return Tensors{op(ctx, in[0], in[1])}; };
  row.reference = [f](const Arrays& in) { return Arrays{map_pairs(in[0], in[1], f)}; };
  rows.push_back(row);
}

struct Function {
  const char* name;
  Activation kind;
  double (*value)(double);
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
const Function kFunctions[] = {
    {"relu", Activation::kRelu, [](double x) { return x > 0 ? x : 0.0; }},
    {"gelu", Activation::kGelu, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
    {"gelu_tanh", Activation::kGeluTanh,
     [](double x) {
       return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
     }},
    {"silu", Activation::kSilu, [](double x) { return x * sigmoid(x); }},
    {"tanh", Activation::kTanh, [](double x) { return std::tanh(x); }},
    {"sigmoid", Activation::kSigmoid, sigmoid},
    {"softplus", Activation::kSoftplus, [](double x) { return std::log1p(std::exp(x)); }},
    {"exp", Activation::kExp, [](double x) { return std::exp(x); }},
    {"log_sigmoid", Activation::kLogSigmoid, [](double x) { return -std::log1p(std::exp(-x)); }},
    {"square", Activation::kSquare, [](double x) { return x * x; }},
};
static_assert(std::size(kFunctions) == kernels::kActivations);

void add_activations(std::vector<OpRow>& rows) {
  for (const Function& f : kFunctions) {
    for (const int64_t n : {int64_t{37}, int64_t{20000}})
      rows.push_back(
          {std::string("activation_") + f.name + "_" + std::to_string(n),
           {{{n}, 2.5}},
           [f](Context& ctx, const Tensors& in) { return Tensors{ops::activate(ctx, in[0], f.kind)}; },
           [f](const Arrays& in) { return Arrays{map_elements(in[0], f.value)}; }});
    rows.push_back(
        {std::string("gated_") + f.name,
         {{{5, 13}, 2.0}, {{5, 13}}},
         [f](Context& ctx, const Tensors& in) { return Tensors{ops::gated(ctx, in[0], in[1], f.kind)}; },
         [f](const Arrays& in) {
           return Arrays{map_pairs(in[0], in[1], [&](double a, double b) { return f.value(a) * b; })};
         }});
  }
}

// The op is linear in x, so its output for ones is its mask.
void add_dropout(std::vector<OpRow>& rows, const std::string& name, const Shape& shape) {
  OpRow row{name, {{shape}}, {}, {}, true};
  row.run = [](Context& ctx, const Tensors& in) { return Tensors{ops::dropout(ctx, in[0], 0.3f)}; };
  row.reference = [shape](const Arrays& in) {
    CpuDevice device(1);
    Context ctx{device, nullptr, true, kSeed, kStep};
    const Tensor mask = ops::dropout(ctx, Tensor::full(shape, 1.0f), 0.3f);
    Array y(shape);
    for (int64_t i = 0; i < y.count(); ++i) y[i] = in[0][i] * mask.f32()[i];
    return Arrays{y};
  };
  rows.push_back(row);
}

}  // namespace

void add_elementwise_rows(std::vector<OpRow>& rows) {
  const auto plus = [](double a, double b) { return a + b; };
  const auto minus = [](double a, double b) { return a - b; };
  const auto times = [](double a, double b) { return a * b; };
  struct Kind {
    const char* name;
    Binary op;
    double (*f)(double, double);
  };
  for (const Kind& k : {Kind{"add", ops::add, plus}, Kind{"subtract", ops::subtract, minus},
                        Kind{"multiply", ops::multiply, times}}) {
    add_binary(rows, k.name, k.op, k.f, {4, 9}, {4, 9});
    add_binary(rows, std::string(k.name) + "_suffix", k.op, k.f, {3, 4, 9}, {4, 9});
    add_binary(rows, std::string(k.name) + "_row", k.op, k.f, {30, 9}, {9});
    add_binary(rows, std::string(k.name) + "_scalar", k.op, k.f, {5, 3}, {});
    add_binary(rows, std::string(k.name) + "_large", k.op, k.f, {100, 130}, {100, 130});
    add_binary(rows, std::string(k.name) + "_row_large", k.op, k.f, {100, 130}, {130});
  }
  for (const int64_t n : {int64_t{30}, int64_t{20000}}) {
    const std::string size = "_" + std::to_string(n);
    add_binary(
        rows, "divide" + size, ops::divide, [](double a, double b) { return a / b; }, {n}, {n}, true);
    add_binary(rows, "minimum" + size, ops::minimum, [](double a, double b) { return std::min(a, b); }, {n},
               {n});
    add_binary(rows, "maximum" + size, ops::maximum, [](double a, double b) { return std::max(a, b); }, {n},
               {n});
    // Among so many pairs one is closer to a tie than the step of the finite differences.
    rows[rows.size() - 2].gradient_limit = rows.back().gradient_limit = n > 1000 ? 1e-3 : 1e-5;
    rows.push_back(
        {"clamp" + size,
         {{{n}}},
         [](Context& ctx, const Tensors& in) { return Tensors{ops::clamp(ctx, in[0], -0.5f, 0.75f)}; },
         [](const Arrays& in) {
           return Arrays{map_elements(in[0], [](double x) { return std::clamp(x, -0.5, 0.75); })};
         }});
    rows.push_back(
        {"scale" + size,
         {{{n}}},
         [](Context& ctx, const Tensors& in) { return Tensors{ops::scale(ctx, in[0], -1.75f)}; },
         [](const Arrays& in) { return Arrays{map_elements(in[0], [](double x) { return x * -1.75; })}; }});
    rows.push_back(
        {"shift" + size,
         {{{n}}},
         [](Context& ctx, const Tensors& in) { return Tensors{ops::shift(ctx, in[0], 0.75f)}; },
         [](const Arrays& in) { return Arrays{map_elements(in[0], [](double x) { return x + 0.75; })}; }});
    rows.push_back({"soft_cap" + size,
                    {{{n}, 5.0}},
                    [](Context& ctx, const Tensors& in) { return Tensors{ops::soft_cap(ctx, in[0], 4.0f)}; },
                    [](const Arrays& in) {
                      return Arrays{map_elements(in[0], [](double x) { return 4.0 * std::tanh(x / 4.0); })};
                    }});
  }
  rows.push_back(
      {"add_to_itself",
       {{{3, 5}}},
       [](Context& ctx, const Tensors& in) { return Tensors{ops::add(ctx, in[0], in[0])}; },
       [](const Arrays& in) { return Arrays{map_elements(in[0], [](double x) { return 2 * x; })}; }});
  rows.push_back(
      {"multiply_with_itself",
       {{{3, 5}}},
       [](Context& ctx, const Tensors& in) { return Tensors{ops::multiply(ctx, in[0], in[0])}; },
       [](const Arrays& in) { return Arrays{map_elements(in[0], [](double x) { return x * x; })}; }});
  add_activations(rows);
  add_dropout(rows, "dropout", {6, 7});
  add_dropout(rows, "dropout_large", {100, 130});
}

}  // namespace makar::test
