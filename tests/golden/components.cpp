// Golden components made with PyTorch. Details that the fixture lacks were found by experiment and are noted
// beside each line.
#include <algorithm>
#include <cmath>

#include "golden/fixture.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar::golden {
namespace {

using ops::Activation;

Tensor flipped_rows(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape());
  const int64_t rows = x.dim(0), width = x.count() / rows;
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(x.f32() + (rows - 1 - i) * width, width, y.f32() + i * width);
  return y;
}

// [a, b, c, d] -> [a, c, b, d]: exchanges heads and tokens.
Tensor swapped(const Tensor& x) {
  const int64_t a = x.dim(0), b = x.dim(1), c = x.dim(2), d = x.dim(3);
  Tensor y = Tensor::empty({a, c, b, d});
  for (int64_t i = 0; i < a * b * c; ++i) {
    const int64_t n = i / (b * c), h = i / c % b, t = i % c;
    std::copy_n(x.f32() + i * d, d, y.f32() + ((n * c + t) * b + h) * d);
  }
  return y;
}

double attention_error(Context& ctx, const Fixture& f, bool causal) {
  const Tensor q = f.get("q"), expected = f.get(causal ? "sdpa_causal" : "sdpa");
  const int64_t batch = q.dim(0), heads = q.dim(1), tokens = q.dim(2), dim = q.dim(3);
  const auto flat = [&](const std::string& name) {
    return swapped(f.get(name)).reshape({batch * tokens, heads * dim}).to(ctx.device.memory());
  };
  ops::AttentionOptions o;
  o.heads = o.kv_heads = heads, o.head_dim = dim, o.causal = causal,
  o.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  std::vector<ops::SequenceRows> rows;
  for (int64_t b = 0; b < batch; ++b) rows.push_back({b * tokens, tokens, b * tokens, tokens, 0});
  const Tensor y = ops::attention(ctx, flat("q"), flat("k"), flat("v"), rows, o);
  return relative_error(swapped(y.host().reshape({batch, tokens, heads, dim})), expected);
}

void add_losses(Context& ctx, const Fixture& f, std::vector<GoldenLine>& lines) {
  const auto scalar = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& loss) {
    lines.push_back(measure("components/" + name, kValueLimit, [&] {
      return relative_error(loss(f.on(ctx.device, "ce_logits")), f.get(name));
    }));
  };
  const auto targets = [&] {
    const Tensor t = f.get("ce_targets");
    return std::vector<int64_t>(t.i64(), t.i64() + t.count());
  };
  scalar("ce", [&](const Tensor& x) { return ops::cross_entropy(ctx, x, targets()); });
  scalar("ce_sum", [&](const Tensor& x) {
    return ops::cross_entropy(ctx, x, targets(), {0.0f, ops::Reduction::kSum});
  });
  for (const std::string& name : f.names())
    if (name.rfind("ce_smooth_", 0) == 0)
      scalar(name, [&](const Tensor& x) {
        return ops::cross_entropy(ctx, x, targets(), {std::stof(name.substr(10)), ops::Reduction::kMean});
      });
  const auto flipped = [&](const Tensor& x) { return flipped_rows(x.host()).to(ctx.device.memory()); };
  // The second argument of mse and kl is the same logits with their rows in reverse.
  scalar("mse", [&](const Tensor& x) { return ops::mse_loss(ctx, x, flipped(x)); });
  scalar("kl_batchmean", [&](const Tensor& x) {
    return ops::kl_divergence(ctx, ops::log_softmax(ctx, x), ops::log_softmax(ctx, flipped(x)));
  });
  // The target of bce is 1 where the logit is above 0.3.
  scalar("bce_logits", [&](const Tensor& x) {
    const Tensor logits = x.host();
    Tensor target = Tensor::empty(x.shape());
    for (int64_t i = 0; i < x.count(); ++i) target.f32()[i] = logits.f32()[i] > 0.3f ? 1.0f : 0.0f;
    return ops::bce_loss(ctx, x, target.to(ctx.device.memory()));
  });
}

}  // namespace

void add_rowwise(const Fixture& f, Device& device, std::vector<GoldenLine>& lines) {
  Context ctx{device};
  const auto of_x = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& op) {
    lines.push_back(measure("components/" + name, kValueLimit,
                            [&] { return relative_error(op(f.on(device, "x")), f.get(name)); }));
  };
  of_x("layer_norm", [&](const Tensor& x) {
    return ops::layer_norm(ctx, x, f.on(device, "weight"), f.on(device, "bias"), 1e-5f);
  });
  of_x("rms_norm", [&](const Tensor& x) { return ops::rms_norm(ctx, x, f.on(device, "weight"), 1e-6f); });
  of_x("batch_norm_train", [&](const Tensor& x) {  // x as rows
    Context training{device, nullptr, true};
    ops::BatchNormState state;
    return ops::batch_norm(training, x.reshape({x.count() / x.dim(-1), x.dim(-1)}), f.on(device, "weight"),
                           f.on(device, "bias"), 1e-5f, state);
  });
  const std::pair<const char*, Activation> activations[] = {
      {"relu", Activation::kRelu},        {"gelu", Activation::kGelu}, {"gelu_tanh", Activation::kGeluTanh},
      {"silu", Activation::kSilu},        {"tanh", Activation::kTanh}, {"sigmoid", Activation::kSigmoid},
      {"softplus", Activation::kSoftplus}};
  for (const auto& [name, kind] : activations)
    of_x(name, [&, k = kind](const Tensor& x) { return ops::activate(ctx, x, k); });
  of_x("softmax", [&](const Tensor& x) { return ops::softmax(ctx, x); });
  of_x("log_softmax", [&](const Tensor& x) { return ops::log_softmax(ctx, x); });
  add_losses(ctx, f, lines);
  for (const bool causal : {false, true})
    lines.push_back(measure(causal ? "components/sdpa_causal" : "components/sdpa", kValueLimit,
                            [&] { return attention_error(ctx, f, causal); }));
  lines.push_back(measure("components/conv", kValueLimit, [&] {  // patches: the stride is the kernel
    const Tensor w = f.on(device, "conv.w"), expected = f.get("conv.out");
    const Tensor rows = ops::conv2d_rows(ctx, f.on(device, "conv.x"), w, f.on(device, "conv.b"), w.dim(2));
    return relative_error(swapped(rows.host().reshape(
                              {expected.dim(0), expected.dim(2) * expected.dim(3), expected.dim(1), 1})),
                          expected);
  }));
}

std::vector<GoldenLine> run_components(const std::string& folder, Device& device) {
  std::vector<GoldenLine> lines;
  auto fixture = Fixture::open(folder + "/components/golden");
  if (!fixture) {
    lines.push_back({"components", 0, 0, "fail", fixture.error().text()});
    return lines;
  }
  add_rowwise(*fixture, device, lines);
  add_recurrent(*fixture, device, lines);
  add_optimisers(*fixture, device, lines);
  add_schedules(*fixture, lines);
  add_logits_processors(*fixture, lines);
  return lines;
}

}  // namespace makar::golden
