#include "ops/checkpoint.h"

namespace makar::ops {

Tensor checkpoint(Context& ctx, const std::vector<Tensor>& inputs,
                  const std::function<Tensor(Context&, const std::vector<Tensor>&)>& body) {
  if (!ctx.tape) return body(ctx, inputs);
  const uint64_t stream = ctx.stream;
  Context no_tape = ctx;
  no_tape.tape = nullptr;
  const Tensor result = body(no_tape, inputs);
  ctx.stream = no_tape.stream;
  // Give the output its own identity: the body may return an input unchanged.
  Tensor output = result.reshape(result.shape());
  ctx.tape->record(output, [ctx, inputs, body, stream](const Tensor& dy) {
    Tape inner_tape(ctx.tape);
    std::vector<Tensor> leaves;
    std::vector<size_t> without_gradient;  // inputs that had no gradient before
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
        const bool has_terms = ctx.tape->has_gradient(input);
        leaves.push_back(input.reshape(input.shape()));
        inner_tape.watch(leaves.back(), has_terms ? ctx.tape->target(input).buffer : Tensor());
        if (!has_terms) without_gradient.push_back(i);
      }
    }
    Context inner = ctx;
    inner.tape = &inner_tape;
    inner.stream = stream;
    const Tensor out = body(inner, leaves);
    inner_tape.backward(out, dy);
    for (const size_t i : without_gradient)
      if (const Tensor g = inner_tape.gradient(leaves[i]); g.defined()) ctx.tape->pass(inputs[i], g);
  });
  return output;
}

}  // namespace makar::ops
