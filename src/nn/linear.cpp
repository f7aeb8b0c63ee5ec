#include "nn/linear.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {

Linear::Linear(ParameterSet& set, const std::string& name, int64_t in, int64_t out, bool bias)
    : weight_(set.add(name + ".weight", {out, in})), bias_(bias ? set.add(name + ".bias", {out}) : nullptr) {}

void Linear::offer(size_t number, std::shared_ptr<const Adapter> adapter) {
  check(!adapter->magnitude, "DoRA changes the whole layer; it is attached, not offered");
  if (offered_.size() <= number) offered_.resize(number + 1);
  offered_[number] = std::move(adapter);
}

Tensor Linear::operator()(Context& ctx, const Tensor& x) const {
  return with_offered(ctx, x, with_attached(ctx, x));
}

std::vector<Tensor> Linear::together(Context& ctx, const Tensor& x,
                                     std::initializer_list<const Linear*> all) {
  std::vector<Tensor> out;
  std::vector<ops::PackedLayer> layers;
  for (const Linear* l : all)
    if (!ctx.tape && !ctx.observer && l->packed_ && !l->adapter_)
      layers.push_back({l->bias_ ? l->bias_->value : Tensor(), l->packed_.get()});
  if (layers.size() == all.size()) {
    out = ops::linears(ctx, x, layers);
    size_t i = 0;
    for (const Linear* l : all) out[i] = l->with_offered(ctx, x, out[i]), ++i;
  } else {
    for (const Linear* l : all) out.push_back((*l)(ctx, x));
  }
  return out;
}

Tensor Linear::with_offered(Context& ctx, const Tensor& x, Tensor y) const {
  if (ctx.row_adapters.empty() || offered_.empty()) return y;
  check(!ctx.tape && static_cast<int64_t>(ctx.row_adapters.size()) == x.dim(0),
        "a row each, outside of training");
  for (size_t number = 0; number < offered_.size(); ++number) {
    std::vector<int64_t> rows;
    for (size_t r = 0; r < ctx.row_adapters.size(); ++r)
      if (ctx.row_adapters[r] == static_cast<int32_t>(number)) rows.push_back(static_cast<int64_t>(r));
    const Adapter* adapter = offered_[number].get();
    if (rows.empty() || !adapter) continue;
    const Tensor low = ops::linear(ctx, ops::gather_rows(ctx, x, rows), adapter->a->value);
    const Tensor own = ops::scale(ctx, ops::linear(ctx, low, adapter->b->value), adapter->scale);
    const Tensor sum = ops::add(ctx, ops::gather_rows(ctx, y, rows), own);
    const int64_t width = y.dim(1);
    for (size_t i = 0; i < rows.size(); ++i)
      std::copy_n(sum.f32() + static_cast<int64_t>(i) * width, width, y.f32() + rows[i] * width);
  }
  return y;
}

Tensor Linear::with_attached(Context& ctx, const Tensor& x) const {
  const Tensor bias = bias_ ? bias_->value : Tensor();
  if (!adapter_) return ops::linear(ctx, x, weight_->value, bias, packed_.get());
  if (adapter_->magnitude) return with_magnitude(ctx, x);
  const Tensor base = ops::linear(ctx, x, weight_->value, bias, packed_.get());
  const Tensor low = ops::linear(ctx, ops::dropout(ctx, x, adapter_->dropout), adapter_->a->value);
  return ops::add(ctx, base, ops::scale(ctx, ops::linear(ctx, low, adapter_->b->value), adapter_->scale));
}

// DoRA: rows of V = W + scale B A get the length m; the norm of V is held constant in the gradient, as peft
// does.
//   y = (m / |V|) * x V^T + b
Tensor Linear::with_magnitude(Context& ctx, const Tensor& x) const {
  Context plain{ctx.pool};
  Tensor v = ops::add(
      plain, ops::decoded(ctx.pool, weight_->value),
      ops::scale(plain, ops::matmul(plain, adapter_->b->value, adapter_->a->value), adapter_->scale));
  Tensor inverse = Tensor::empty({v.dim(0)});
  for (int64_t i = 0; i < v.dim(0); ++i)
    inverse.f32()[i] = 1.0f / std::sqrt(kernels::cpu().sum_squares(v.f32() + i * v.dim(1), v.dim(1)));
  const Tensor factor = ops::multiply(ctx, adapter_->magnitude->value, inverse);  // [out]
  const Tensor dropped = ops::dropout(ctx, x, adapter_->dropout);
  const Tensor low = ops::linear(ctx, dropped, adapter_->a->value);
  const Tensor base = ops::linear(ctx, x, weight_->value, {}, packed_.get());
  const Tensor sum =
      ops::add(ctx, base, ops::scale(ctx, ops::linear(ctx, low, adapter_->b->value), adapter_->scale));
  const Tensor y = ops::multiply(ctx, sum, factor);
  return bias_ ? ops::add(ctx, y, bias_->value) : y;
}

Tensor Linear::merged(Context& ctx) const {
  Context plain{ctx.pool};
  Tensor w = ops::decoded(ctx.pool, weight_->value);
  if (!adapter_) return w;
  Tensor v = ops::add(
      plain, w,
      ops::scale(plain, ops::matmul(plain, adapter_->b->value, adapter_->a->value), adapter_->scale));
  if (!adapter_->magnitude) return v;
  Tensor factor = Tensor::empty({v.dim(0)});
  for (int64_t i = 0; i < v.dim(0); ++i)
    factor.f32()[i] = adapter_->magnitude->value.f32()[i] /
                      std::sqrt(kernels::cpu().sum_squares(v.f32() + i * v.dim(1), v.dim(1)));
  return ops::scale_rows(plain, v, factor);
}

void Linear::pack(ThreadPool& pool) {
  const Tensor& w = weight_->value;
  packed_ = std::make_shared<kernels::PackedMatrix>(
      kernels::PackedMatrix::pack(pool, {w.raw(), w.dtype(), w.dim(1), 1}, w.dim(0), w.dim(1)));
  MappedFile::put_aside({w.raw(), w.bytes()});  // the copy is what will be read
}

void Linear::release() {
  if (packed_ && !adapter_ && !MappedFile::holds(weight_->value.raw())) weight_->value = Tensor();
}

}  // namespace makar
