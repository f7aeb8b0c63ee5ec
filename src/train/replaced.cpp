#include "train/replaced.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/shape.h"
#include "ops/softmax.h"
#include "train/objective.h"

namespace makar {

Result<Json> generator_config(const ModelSpec& spec, double size) {
  if (!(size > 0 && size <= 1))
    return error_at("generator_size", "expected above 0 and at most 1, got {}", size);
  const AttentionSpec& a = spec.encoder->first().attention;
  const auto scaled = [&](int64_t n) {
    return std::max<int64_t>(1, std::llround(size * static_cast<double>(n)));
  };
  Json config = spec.config;
  const int64_t heads = scaled(a.heads);
  config["architectures"] = {"ElectraForMaskedLM"};
  config["num_attention_heads"] = heads;
  config["hidden_size"] = heads * a.head_dim;
  config["intermediate_size"] = scaled(spec.encoder->first().feed_forward.width);
  config["embedding_size"] = spec.encoder->embedding.width;
  return config;
}

Result<LoadedModel> make_generator(const Model& discriminator, double size, uint64_t seed) {
  MAKAR_TRY(const Json json, generator_config(discriminator.spec(), size));
  const Config config(json, "config.json of the generator");
  MAKAR_TRY(const Family* family, find_family(config));
  MAKAR_TRY(ModelSpec spec, family->read(config));
  Parameter* tokens = discriminator.parameters().find("encoder.embed.tokens.weight");
  LoadedModel out{family, std::make_unique<Model>(std::move(spec), tokens)};
  initialize(*out.model, seed);
  return out;
}

Result<LoadedModel> standalone_generator(const LoadedModel& generator, const Model& discriminator) {
  MAKAR_TRY(LoadedModel out,
            make_model(Config(generator.model->spec().config, "config.json of the generator")));
  for (const auto& p : out.model->parameters().all()) {
    const Parameter* from = generator.model->parameters().find(p->name);
    if (!from) from = discriminator.parameters().find(p->name);
    check(from && from->shape == p->shape, "a generator has the parameters of its config");
    p->value = from->value.host().clone();
  }
  return out;
}

std::vector<int64_t> sample_tokens(const Tensor& logits, const Rng& rng) {
  const Tensor host = logits.host();
  const int64_t rows = host.dim(0), vocab = host.dim(1);
  std::vector<int64_t> out;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = host.f32() + r * vocab;
    const float max = *std::max_element(row, row + vocab);
    double sum = 0;
    for (int64_t v = 0; v < vocab; ++v) sum += std::exp(static_cast<double>(row[v] - max));
    double left = rng.uniform_double(static_cast<uint64_t>(r)) * sum;
    int64_t token = 0;
    for (; token + 1 < vocab; ++token)
      if ((left -= std::exp(static_cast<double>(row[token] - max))) < 0) break;
    out.push_back(token);
  }
  return out;
}

MicroBatch replaced_batch(Model& discriminator, Model& generator, MaskedBatch examples, uint64_t seed,
                          uint64_t draw) {
  MicroBatch out;
  out.tokens = examples.batch.rows(), out.squared_lengths = squared_lengths(examples.batch);
  out.weight = static_cast<double>(examples.originals.size());
  out.loss = [&discriminator, &generator, seed, draw,
              e = std::move(examples)](ForwardContext& f) -> Result<Tensor> {
    Inputs inputs;
    inputs.source = e.batch;
    const Tensor hidden = ops::gather_rows(f.ops, generator.hidden(f, inputs), e.rows);
    const Tensor masked_loss = generator.lm_loss(f.ops, hidden, e.originals);
    // Drawing has no gradient.
    Context plain{f.ops.device};
    const auto drawn = sample_tokens(generator.lm_logits(plain, hidden), Rng(seed, Purpose::kSample, draw));
    std::vector<int64_t> labels(e.batch.tokens.size(), 0);
    for (size_t i = 0; i < e.rows.size(); ++i) {
      const auto row = static_cast<size_t>(e.rows[i]);
      inputs.source.tokens[row] = drawn[i];
      labels[row] = drawn[i] != e.originals[i] ? 1 : 0;
    }
    const Tensor discriminator_hidden = discriminator.hidden(f, inputs);
    const Tensor logits = discriminator.outputs(f.ops, discriminator_hidden, inputs.source).at("logits");
    return ops::add(f.ops, masked_loss,
                    ops::scale(f.ops, replaced_loss(f.ops, logits, labels), kReplacedWeight));
  };
  return out;
}

}  // namespace makar
