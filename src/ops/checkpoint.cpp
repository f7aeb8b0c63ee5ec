#include "ops/checkpoint.h"

namespace makar::ops {

Tensor checkpoint(Context& ctx, const std::vector<Tensor>& inputs,
                  const std::function<Tensor(Context&, const std::vector<Tensor>&)>& body) {
  if (!ctx.tape) return body(ctx, inputs);
  const uint64_t stream = ctx.stream;
  Context plain = ctx;
  plain.tape = nullptr;
  const Tensor result = body(plain, inputs);
  ctx.stream = plain.stream;
  // The output gets an identity of its own: the body may hand an input through.
  Tensor output = result.reshape(result.shape());
  ctx.tape->record(output, [&ctx, inputs, body, stream](const Tensor& dy) {
    Tape again(ctx.tape);
    std::vector<Tensor> leaves;
    for (const Tensor& input : inputs) {
      leaves.push_back(input.defined() ? input.reshape(input.shape()) : Tensor());
      if (ctx.needs(input)) again.watch(leaves.back());
    }
    Context inner = ctx;
    inner.tape = &again;
    inner.stream = stream;
    const Tensor out = body(inner, leaves);
    again.backward(out, dy);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!ctx.needs(inputs[i])) continue;
      if (const Tensor g = again.gradient(leaves[i]); g.defined()) ctx.tape->pass(inputs[i], g);
    }
  });
  return output;
}

}  // namespace makar::ops
