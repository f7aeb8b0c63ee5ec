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
  // Give the output its own identity: the body may return an input unchanged.
  Tensor output = result.reshape(result.shape());
  ctx.tape->record(output, [ctx, inputs, body, stream](const Tensor& dy) {
    Tape again(ctx.tape);
    std::vector<Tensor> leaves;
    std::vector<size_t> fresh;  // inputs without a gradient so far
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = inputs[i];
      if (!ctx.needs(input)) {
        leaves.push_back(input);
        continue;
      }
      size_t first = 0;  // a tensor passed twice is one leaf
      while (first < i && Key(inputs[first]).id != input.id()) ++first;
      if (first < i) {
        leaves.push_back(leaves[first]);
      } else {
        // Add terms one by one to the existing gradient, in the same order as without checkpointing.
        const bool started = ctx.tape->has_gradient(input);
        leaves.push_back(input.reshape(input.shape()));
        again.watch(leaves.back(), started ? ctx.tape->target(input).buffer : Tensor());
        if (!started) fresh.push_back(i);
      }
    }
    Context inner = ctx;
    inner.tape = &again;
    inner.stream = stream;
    const Tensor out = body(inner, leaves);
    again.backward(out, dy);
    for (const size_t i : fresh)
      if (const Tensor g = again.gradient(leaves[i]); g.defined()) ctx.tape->pass(inputs[i], g);
  });
  return output;
}

}  // namespace makar::ops
