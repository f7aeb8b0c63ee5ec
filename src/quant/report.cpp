#include "quant/report.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace makar {
namespace {

Tensor logits(const Model& model, const std::vector<int64_t>& ids, Device& device) {
  Context ctx{device};
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source.add(ids);
  return model.lm_logits(ctx, model.hidden(f, inputs)).host();
}

struct LogitRow {
  const float* x;
  int64_t n, best = 0;
  double log_sum = 0;
  LogitRow(const float* values, int64_t count) : x(values), n(count) {
    best = std::max_element(x, x + n) - x;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - x[best]);
    log_sum = x[best] + std::log(sum);
  }
  double log_probability(int64_t i) const { return x[i] - log_sum; }
};

double divergence(const LogitRow& p, const LogitRow& q) {
  double kl = 0;
  for (int64_t i = 0; i < p.n; ++i) {
    const double lp = p.log_probability(i);
    kl += std::exp(lp) * (lp - q.log_probability(i));
  }
  return kl;
}

}  // namespace

Status check_comparable(const ModelSpec& spec) {
  if (spec.head.kind == HeadKind::kCausalLm && !spec.encoder) return Done{};
  return error_of(Error::Kind::kUnsupported, "report",
                  "a {} does not predict next tokens; only causal language models can be compared",
                  spec.architecture);
}

Result<Divergence> compare_models(const Model& original, const Model& other, const std::vector<int64_t>& ids,
                                  int64_t window, Device& device, ThreadPool& pool) {
  const ModelSpec& spec = original.spec();
  MAKAR_RETURN_IF_ERROR(check_comparable(spec));
  if (spec.max_positions > 0) window = std::min(window, spec.max_positions);
  Divergence out;
  double original_loss = 0, other_loss = 0, agreed = 0;
  const auto size = static_cast<int64_t>(ids.size());
  for (int64_t at = 0; at + 1 < size; at += window) {
    const std::vector<int64_t> part(ids.begin() + at, ids.begin() + std::min(at + window, size));
    const Tensor a = logits(original, part, device), b = logits(other, part, device);
    const int64_t vocab = a.dim(1), positions = static_cast<int64_t>(part.size()) - 1;
    std::vector<std::array<double, 4>> rows(static_cast<size_t>(positions));
    pool.for_ranges(positions, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const LogitRow p(a.f32() + i * vocab, vocab), q(b.f32() + i * vocab, vocab);
        const int64_t next = part[static_cast<size_t>(i) + 1];
        rows[static_cast<size_t>(i)] = {-p.log_probability(next), -q.log_probability(next), divergence(p, q),
                                        p.best == q.best ? 1.0 : 0.0};
      }
    });
    for (const auto& e : rows) original_loss += e[0], other_loss += e[1], out.kl += e[2], agreed += e[3];
    out.tokens += positions;
  }
  if (out.tokens == 0) return error_at("", "the text has {} tokens; at least 2 are needed", size);
  const auto n = static_cast<double>(out.tokens);
  out.perplexity_before = std::exp(original_loss / n), out.perplexity_after = std::exp(other_loss / n);
  out.kl /= n, out.top1 = agreed / n;
  return out;
}

}  // namespace makar
