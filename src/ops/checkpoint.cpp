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
    std::vector<size_t> fresh;  // inputs whose gradient starts here
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = inputs[i];
      if (!ctx.needs(input)) {
        leaves.push_back(input);
        continue;
      }
      size_t first = 0;  // the same tensor given twice is one leaf
      while (first < i && Key(inputs[first]).id != input.id()) ++first;
      if (first < i) {
        leaves.push_back(leaves[first]);
      } else {
        // Terms are added one by one to what there is already, in the order of a run without checkpoints.
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
