#include "nn/linear.h"

#include <algorithm>

#include "base/file.h"
#include "ops/bf16.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {

Linear::Linear(ParameterSet& set, const std::string& name, int64_t in, int64_t out, bool bias)
    : weight_(set.add(name + ".weight", {out, in})), bias_(bias ? set.add(name + ".bias", {out}) : nullptr) {}

void Linear::add_row_adapter(size_t number, std::shared_ptr<const Adapter> adapter) {
  check(!adapter->magnitude, "a DoRA adapter cannot be selected per row: attach it instead");
  if (row_adapters_.size() <= number) row_adapters_.resize(number + 1);
  row_adapters_[number] = std::move(adapter);
}

Tensor Linear::operator()(Context& ctx, const Tensor& x) const {
  return with_row_adapters(ctx, x, with_attached(ctx, x));
}

std::vector<Tensor> Linear::together(Context& ctx, const Tensor& x,
                                     std::initializer_list<const Linear*> linears) {
  std::vector<Tensor> out;
  std::vector<ops::PackedLayer> layers;
  for (const Linear* l : linears)
    if (!ctx.tape && !ctx.observer && l->packed_ && !l->adapter_)
      layers.push_back({l->bias_ ? l->bias_->value : Tensor(), l->packed_.get()});
  if (layers.size() == linears.size()) {
    out = ops::linears(ctx, x, layers);
    size_t i = 0;
    for (const Linear* l : linears) out[i] = l->with_row_adapters(ctx, x, out[i]), ++i;
  } else {
    for (const Linear* l : linears) out.push_back((*l)(ctx, x));
  }
  return out;
}

Tensor Linear::with_row_adapters(Context& ctx, const Tensor& x, Tensor y) const {
  if (ctx.row_adapters.empty() || row_adapters_.empty()) return y;
  check(!ctx.tape && static_cast<int64_t>(ctx.row_adapters.size()) == x.dim(0),
        "one adapter per row, outside of training");
  for (size_t number = 0; number < row_adapters_.size(); ++number) {
    std::vector<int64_t> rows;
    for (size_t r = 0; r < ctx.row_adapters.size(); ++r)
      if (ctx.row_adapters[r] == static_cast<int32_t>(number)) rows.push_back(static_cast<int64_t>(r));
    const Adapter* adapter = row_adapters_[number].get();
    if (rows.empty() || !adapter) continue;
    const Tensor low = ops::linear(ctx, ops::gather_rows(ctx, x, rows), adapter->a->value);
    const Tensor delta = ops::scale(ctx, ops::linear(ctx, low, adapter->b->value), adapter->scale);
    const Tensor sum = ops::add(ctx, ops::gather_rows(ctx, y, rows), delta);
    ops::replace_rows(ctx, y, sum, rows);
  }
  return y;
}

Tensor Linear::with_attached(Context& ctx, const Tensor& x) const {
  const Tensor bias = bias_ ? bias_->value : Tensor();
  if (!adapter_ || ctx.without_adapters) return ops::linear(ctx, x, weight_->value, bias, packed_.get());
  if (adapter_->magnitude) return with_magnitude(ctx, x);
  const Tensor base = ops::linear(ctx, x, weight_->value, bias, packed_.get());
  const Tensor low = ops::linear(ctx, ops::dropout(ctx, x, adapter_->dropout), adapter_->a->value);
  return ops::add(ctx, base, ops::scale(ctx, ops::linear(ctx, low, adapter_->b->value), adapter_->scale));
}

// W + scale B A in f32, without a gradient.
static Tensor with_low_rank(Context& no_tape, const Tensor& w, const Adapter& adapter) {
  return ops::add(
      no_tape, ops::decode_to_f32(no_tape.device, w),
      ops::scale(no_tape, ops::matmul(no_tape, adapter.b->value, adapter.a->value), adapter.scale));
}

// DoRA: rows of V = W + scale B A are rescaled to length m; like peft, the gradient treats the norm of V as
// constant.
//   y = (m / |V|) * x V^T + b
Tensor Linear::with_magnitude(Context& ctx, const Tensor& x) const {
  Context no_tape{ctx.device};
  const Tensor inverse = ops::row_norms(no_tape, with_low_rank(no_tape, weight_->value, *adapter_), true);
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
  Context no_tape{ctx.device};
  if (!adapter_) return ops::decode_to_f32(ctx.device, weight_->value);
  const Tensor v = with_low_rank(no_tape, weight_->value, *adapter_);
  if (!adapter_->magnitude) return v;
  return ops::scale_rows(no_tape, v,
                         ops::divide(no_tape, adapter_->magnitude->value, ops::row_norms(no_tape, v)));
}

void Linear::pack(Device& device, DType activations) {
  Linear* self = this;
  pack_together(device, {&self, 1}, activations);
}

void Linear::pack_together(Device& device, std::span<Linear* const> linears, DType activations) {
  std::vector<Tensor> sources;
  std::vector<kernels::Operand> operands;
  for (const Linear* l : linears) {
    const Tensor& w = l->weight_->value;
    check(w.shape() == linears[0]->weight_->value.shape(), "layers that are packed together have one shape");
    sources.push_back(w);
    if (activations == DType::kBF16 && !is_block(w.dtype())) {
      Context ctx{device};
      sources.back() = ops::cast_to_bf16(ctx, w.dtype() == DType::kF16 ? ops::decode_to_f32(device, w) : w);
    }
    operands.push_back({address_on(device, sources.back()), sources.back().dtype(), w.dim(1), 1});
  }
  const Tensor& first = sources[0];
  // Experts of a file may have several types: those are not packed for one kernel.
  const bool alike = std::ranges::all_of(operands, [&](const auto& o) { return o.type == first.dtype(); });
  for (size_t i = 0; i < linears.size(); i += alike ? linears.size() : 1) {
    const auto packed = device.pack_together(std::span(operands).subspan(i, alike ? linears.size() : 1),
                                             first.dim(0), first.dim(1));
    for (size_t j = 0; j < packed.size(); ++j)
      linears[i + j]->packed_ = packed[j], linears[i + j]->together_ = alike && linears.size() > 1;
  }
  // From now on only the packed copies are read.
  for (const Linear* l : linears) {
    const Tensor& w = l->weight_->value;
    if (w.memory().is_host()) MappedFile::release_pages({w.raw(), w.bytes()});
  }
}

void Linear::release() {
  if (packed_ && !adapter_ && !MappedFile::is_mapped(weight_->value.address())) weight_->value = Tensor();
}

}  // namespace makar
