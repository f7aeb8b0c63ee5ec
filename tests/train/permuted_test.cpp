// XLNet's permuted order and ELECTRA's replaced tokens.
#include "train/permuted.h"

#include <numeric>
#include <set>

#include "kernels/cpu_device.h"
#include "models/subjects.h"
#include "ops/shape.h"
#include "train/replaced.h"

namespace makar {
namespace {

TEST(Permuted, TargetsAreDistinctPositions) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Draws draws{Rng(seed, Purpose::kMask)};
    const auto positions = permuted_targets(60, 10, draws);
    const std::set<int64_t> distinct(positions.begin(), positions.end());
    EXPECT_EQ(distinct.size(), 10u);
    EXPECT_GE(*distinct.begin(), 0);
    EXPECT_LT(*distinct.rbegin(), 60);
  }
  Draws draws{Rng(1, Purpose::kMask)};
  EXPECT_EQ(permuted_targets(3, 9, draws).size(), 3u);
}

// Hidden states of the rows that predict, for a text with targets at `positions`.
Tensor predictions(const Model& model, const std::vector<int64_t>& ids,
                   const std::vector<int64_t>& positions) {
  CpuDevice device(1);
  Permuted p;
  add_permuted(p, ids, positions);
  Context ctx{device};
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source = p.batch;
  inputs.source.features = model.mask_rows(ctx, static_cast<int64_t>(p.rows.size()));
  const Tensor all = model.hidden(f, inputs);
  return all.slice(p.rows.front(), p.rows.back() + 1).clone();
}

// The definition (Yang et al., 2019, section 2.3) in plain loops and doubles: one layer, content rows h and
// query rows g with the same weights.
class Reference {
 public:
  explicit Reference(const Model& m) : m_(m), width_(m.spec().encoder->width) {}
  std::vector<double> prediction(const std::vector<int64_t>& ids, const std::vector<int64_t>& positions,
                                 size_t which) const {
    const auto& a = m_.spec().encoder->first().attention;
    std::vector<std::vector<double>> h;
    for (const int64_t id : ids) h.push_back(row("encoder.embed.tokens.weight", id));
    const std::vector<double> g = row("encoder.mask", 0);
    const auto& at = positions[which];
    std::vector<bool> visible(ids.size(), true);
    for (size_t later = which; later < positions.size(); ++later)
      visible[static_cast<size_t>(positions[later])] = false;
    const auto query = product("attn.q", g);
    std::vector<double> attended(static_cast<size_t>(width_), 0);
    for (int64_t head = 0; head < a.heads; ++head) {
      std::vector<double> scores;
      double sum = 0;
      for (size_t j = 0; j < ids.size(); ++j) {
        const auto key = product("attn.k", h[j]),
                   distance_key = product("attn.distance", sines(at - static_cast<int64_t>(j)));
        double score = 0;
        for (int64_t i = head * a.head_dim; i < (head + 1) * a.head_dim; ++i) {
          const auto n = static_cast<size_t>(i);
          score += (query[n] + value("attn.content_bias", i)) * key[n] +
                   (query[n] + value("attn.distance_bias", i)) * distance_key[n];
        }
        scores.push_back(visible[j] ? std::exp(score / std::sqrt(static_cast<double>(a.head_dim))) : 0.0);
        sum += scores.back();
      }
      for (size_t j = 0; j < ids.size(); ++j) {
        const auto v = product("attn.v", h[j]);
        for (int64_t i = head * a.head_dim; i < (head + 1) * a.head_dim; ++i)
          attended[static_cast<size_t>(i)] += scores[j] / sum * v[static_cast<size_t>(i)];
      }
    }
    auto x = product("attn.o", attended);
    for (size_t i = 0; i < x.size(); ++i) x[i] += g[i];
    x = layer_norm("norm1", x);
    auto up = product("ffn.up", x);
    for (double& v : up) v = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    auto y = product("ffn.down", up);
    for (size_t i = 0; i < y.size(); ++i) y[i] += x[i];
    return layer_norm("norm2", y);
  }

 private:
  Tensor find(const std::string& name) const {
    const Parameter* p = m_.parameters().find(name);
    if (!p) p = m_.parameters().find("encoder.layers.0." + name);
    check(p, name);
    return p->value;
  }
  std::vector<double> row(const std::string& name, int64_t r) const {
    const Tensor t = find(name);
    return {t.f32() + r * width_, t.f32() + (r + 1) * width_};
  }
  double value(const std::string& name, int64_t i) const { return find(name).f32()[i]; }
  std::vector<double> product(const std::string& name, const std::vector<double>& x) const {
    const Tensor w = find(name + ".weight");
    const Parameter* bias = m_.parameters().find("encoder.layers.0." + name + ".bias");
    std::vector<double> y;
    for (int64_t o = 0; o < w.dim(0); ++o) {
      double sum = bias ? bias->value.f32()[o] : 0.0;
      for (int64_t i = 0; i < w.dim(1); ++i)
        sum += double{w.f32()[o * w.dim(1) + i]} * x[static_cast<size_t>(i)];
      y.push_back(sum);
    }
    return y;
  }
  std::vector<double> sines(int64_t distance) const {
    std::vector<double> out(static_cast<size_t>(width_));
    for (int64_t i = 0; i < width_ / 2; ++i) {
      const double angle = static_cast<double>(distance) /
                           std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(width_));
      out[static_cast<size_t>(i)] = std::sin(angle),
      out[static_cast<size_t>(width_ / 2 + i)] = std::cos(angle);
    }
    return out;
  }
  std::vector<double> layer_norm(const std::string& name, std::vector<double> x) const {
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / static_cast<double>(x.size());
    for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = (x[i] - mean) / std::sqrt(variance + 1e-12) * value(name + ".weight", static_cast<int64_t>(i)) +
             value(name + ".bias", static_cast<int64_t>(i));
    return x;
  }
  const Model& m_;
  int64_t width_;
};

LoadedModel small_xlnet(int layers) {
  return small_model({{"model_type", "xlnet"},
                      {"architectures", {"XLNetLMHeadModel"}},
                      {"d_model", 24},
                      {"n_layer", layers},
                      {"n_head", 3},
                      {"d_inner", 40},
                      {"vocab_size", 60},
                      {"dropout", 0.0},
                      {"ff_activation", "gelu"}});
}

TEST(Permuted, OneLayerEqualsTheDefinition) {
  const LoadedModel loaded = small_xlnet(1);
  const auto ids = random_ids(loaded.model->spec(), 9, 3);
  const std::vector<int64_t> positions = {4, 1, 7};
  const Tensor actual = predictions(*loaded.model, ids, positions);
  for (size_t t = 0; t < positions.size(); ++t) {
    const auto expected = Reference(*loaded.model).prediction(ids, positions, t);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual.f32()[t * expected.size() + i], expected[i], 2e-4 * (1 + std::abs(expected[i])))
          << t << " " << i;
  }
}

// In three layers too, a prediction depends on the context and on the targets before it, and on nothing else.
TEST(Permuted, APredictionDependsOnlyOnEarlierTokens) {
  const LoadedModel loaded = small_xlnet(3);
  const std::vector<int64_t> ids = random_ids(loaded.model->spec(), 10, 3), positions = {6, 2, 8};
  const Tensor first = predictions(*loaded.model, ids, positions);
  const int64_t width = first.dim(1);
  for (size_t changed = 0; changed < ids.size(); ++changed) {
    std::vector<int64_t> other = ids;
    other[changed] = 3 + (ids[changed] + 11) % 50;
    const Tensor second = predictions(*loaded.model, other, positions);
    for (size_t t = 0; t < positions.size(); ++t) {
      const auto it = std::find(positions.begin(), positions.end(), static_cast<int64_t>(changed));
      const bool sees = it == positions.end() || static_cast<size_t>(it - positions.begin()) < t;
      const auto row = static_cast<int64_t>(t) * width;
      const bool same = std::equal(first.f32() + row, first.f32() + row + width, second.f32() + row);
      EXPECT_EQ(same, !sees) << "token " << changed << ", prediction " << t;
    }
  }
}

TEST(Replaced, DrawsFollowTheDistribution) {
  constexpr int64_t kRows = 20000;
  Tensor all = Tensor::empty({kRows, 3});
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < 3; ++v)
      all.f32()[r * 3 + v] = std::log(v == 0 ? 0.2f : v == 1 ? 0.5f : 0.3f) + 4.0f;
  double counts[3] = {};
  for (const int64_t token : sample_tokens(all, Rng(5, Purpose::kSample, 1))) counts[token] += 1.0 / kRows;
  EXPECT_NEAR(counts[0], 0.2, 0.01);
  EXPECT_NEAR(counts[1], 0.5, 0.01);
  EXPECT_NEAR(counts[2], 0.3, 0.01);
}

// The loss is the generator's plus 50 times the discriminator's; both models share their embeddings.
TEST(Replaced, TheLossIsTheSumOfBothAndEmbeddingsAreShared) {
  Json config = subject("golden/electra-discriminator").model->spec().config;
  const LoadedModel model = small_model(config);
  const auto generator = make_generator(*model.model, 0.5, 3);
  ASSERT_TRUE(generator.ok()) << generator.error().text();
  EXPECT_EQ(generator->model->parameters().find("encoder.embed.tokens.weight"), nullptr);
  MaskedBatch masked;
  const auto ids = random_ids(model.model->spec(), 12, 3);
  masked.batch.add(ids);
  if (model.model->spec().encoder->embedding.types > 0) masked.batch.types.assign(ids.size(), 0);
  masked.rows = {2, 5, 9};
  for (const int64_t row : masked.rows) {
    masked.originals.push_back(ids[static_cast<size_t>(row)]);
    masked.batch.tokens[static_cast<size_t>(row)] = 4;
  }
  CpuDevice device(1);
  const auto loss_at = [&](uint64_t draw) {
    const MicroBatch batch = replaced_batch(*model.model, *generator->model, masked, 1, draw);
    Context ctx{device};
    ForwardContext f{ctx};
    return (*batch.loss(f)).f32()[0];
  };
  EXPECT_EQ(loss_at(3), loss_at(3));
  // By hand: the generator's loss, and the discriminator's on the tokens that were drawn.
  Context ctx{device};
  ForwardContext f{ctx};
  Inputs inputs;
  inputs.source = masked.batch;
  const Tensor rows = ops::gather_rows(ctx, generator->model->hidden(f, inputs), masked.rows);
  const auto drawn = sample_tokens(generator->model->lm_logits(ctx, rows), Rng(1, Purpose::kSample, 3));
  double entropy = 0;
  const Tensor all = generator->model->lm_logits(ctx, rows);
  for (size_t r = 0; r < 3; ++r) {
    double sum = 0;
    for (int64_t v = 0; v < all.dim(1); ++v)
      sum += std::exp(double{all.f32()[static_cast<int64_t>(r) * all.dim(1) + v]});
    entropy += (std::log(sum) - all.f32()[static_cast<int64_t>(r) * all.dim(1) + masked.originals[r]]) / 3;
  }
  for (size_t i = 0; i < 3; ++i) inputs.source.tokens[static_cast<size_t>(masked.rows[i])] = drawn[i];
  const Tensor logits = model.model->outputs(ctx, model.model->hidden(f, inputs), inputs.source).at("logits");
  double binary = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool replaced = inputs.source.tokens[i] != ids[i];
    binary +=
        std::log1p(std::exp(replaced ? -logits.f32()[i] : logits.f32()[i])) / static_cast<double>(ids.size());
  }
  EXPECT_NEAR(loss_at(3), entropy + 50 * binary, 1e-3 * (entropy + 50 * binary));
  const auto standalone = standalone_generator(*generator, *model.model);
  ASSERT_TRUE(standalone.ok()) << standalone.error().text();
  EXPECT_TRUE(same_bits(standalone->model->parameters().find("encoder.embed.tokens.weight")->value,
                        model.model->parameters().find("encoder.embed.tokens.weight")->value));
}

}  // namespace
}  // namespace makar
