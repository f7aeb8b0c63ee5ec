// The numbers contract on whole models, forward: the logits of a token are the same bits alone or in a batch,
// whole or in chunks with a cache, packed or not, saved and loaded, at any number of threads.
#include <cmath>

#include "kernels/cpu_device.h"
#include "models/subjects.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "scratch_folder.h"

namespace makar {
namespace {

class Bits : public testing::TestWithParam<std::string> {
 protected:
  Bits()
      : loaded_(subject(GetParam())),
        model_(*loaded_.model),
        ids_(random_ids(model_.spec(), longest(model_.spec()), 1)) {
    inputs_.source.add(ids_);
  }
  CpuDevice device_{2};
  LoadedModel loaded_;
  Model& model_;
  std::vector<int64_t> ids_;
  Inputs inputs_;
};
INSTANTIATE_TEST_SUITE_P(Decoders, Bits, testing::ValuesIn(decoders()), test_name);

TEST_P(Bits, AloneEqualsAmong32Others) {
  const Tensor expected = logits(model_, device_, inputs_);
  Inputs all;
  all.source = batch_with_others(model_.spec(), ids_, std::min<int64_t>(longest(model_.spec()), 90), 100);
  EXPECT_TRUE(same_bits(rows_of(logits(model_, device_, all), all.source.sequences[kOwnIndex]), expected));
}

TEST_P(Bits, ChunksAndSingleTokensEqualTheWholeText) {
  const Tensor expected_logits = logits(model_, device_, inputs_);
  const auto length = static_cast<int64_t>(ids_.size());
  for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}, length}) {
    KvCache cache(*model_.spec().decoder, 1);
    for (int64_t past = 0; past < length; past += chunk) {
      const int64_t end = std::min(past + chunk, length);
      Inputs part;
      part.source.add({ids_.begin() + past, ids_.begin() + end}, past);
      part.source.sequences[0].past = past;
      ASSERT_TRUE(same_bits(logits(model_, device_, part, &cache), expected_logits.slice(past, end)))
          << "chunks of " << chunk << " at " << past;
    }
  }
}

// Three requests at different positions, batched step by step: one in chunks of 7, one token by token, one
// that joins late.
TEST_P(Bits, BatchedRequestsEqualEachAlone) {
  const int64_t steps = std::min<int64_t>(longest(model_.spec()), 110);
  struct Request {
    std::vector<int64_t> ids;
    int64_t chunk, first_step, past;
    Tensor expected;
  };
  std::vector<Request> requests;
  for (const int64_t chunk : {int64_t{7}, int64_t{1}, int64_t{3}}) {
    Request r{random_ids(model_.spec(), steps, 50 + static_cast<uint64_t>(chunk)),
              chunk,
              chunk == 3 ? 20 : 0,
              0,
              {}};
    Inputs in;
    in.source.add(r.ids);
    r.expected = logits(model_, device_, in);
    requests.push_back(std::move(r));
  }
  KvCache cache(*model_.spec().decoder, requests.size());
  for (int64_t step = 0; step < steps; ++step) {
    Inputs step_inputs;
    std::vector<size_t> active;
    for (size_t i = 0; i < requests.size(); ++i) {
      Request& r = requests[i];
      const int64_t end = std::min(r.past + r.chunk, steps);
      if (step < r.first_step || r.past == end) continue;
      step_inputs.source.add({r.ids.begin() + r.past, r.ids.begin() + end}, r.past);
      step_inputs.source.sequences.back().past = r.past, step_inputs.source.sequences.back().slot = i;
      active.push_back(i);
    }
    const Tensor all = logits(model_, device_, step_inputs, &cache);
    for (size_t k = 0; k < active.size(); ++k) {
      const Sequence& s = step_inputs.source.sequences[k];
      Request& r = requests[active[k]];
      ASSERT_TRUE(same_bits(rows_of(all, s), r.expected.slice(s.past, s.past + s.length)))
          << "request " << active[k] << " at " << s.past;
      r.past += s.length;
    }
  }
}

TEST_P(Bits, SameBitsForAnyThreadCountAndPacking) {
  Inputs all;
  all.source = batch_with_others(model_.spec(), ids_, 60, 200);
  const Tensor expected = logits(model_, device_, all);
  for (const int threads : {1, 5}) {
    CpuDevice device(threads);
    EXPECT_TRUE(same_bits(logits(model_, device, all), expected)) << threads << " threads";
  }
  const Tensor expected_alone = logits(model_, device_, inputs_);
  model_.pack(device_);
  EXPECT_TRUE(same_bits(logits(model_, device_, all), expected)) << "packed, many rows";
  EXPECT_TRUE(same_bits(logits(model_, device_, inputs_), expected_alone)) << "packed";
  Inputs one;
  one.source.add({ids_[0]});
  EXPECT_TRUE(same_bits(logits(model_, device_, one), expected_alone.slice(0, 1))) << "packed, one row";
}

TEST_P(Bits, SavedAndLoadedGivesTheSameBits) {
  const Tensor expected = logits(model_, device_, inputs_);
  ScratchFolder folder;
  for (const size_t shard : {size_t{1} << 30, size_t{30000}}) {
    ASSERT_TRUE(save_model(folder.path(), model_, *loaded_.family, shard).ok());
    EXPECT_EQ(folder.has("model.safetensors.index.json"), shard == 30000);
    for (const bool trainable : {false, true}) {
      const auto reloaded = load_model(folder.path(), {trainable});
      ASSERT_TRUE(reloaded.ok()) << reloaded.error().text();
      EXPECT_TRUE(same_bits(logits(*reloaded->model, device_, inputs_), expected));
    }
  }
}

TEST_P(Bits, HalfWeightsEqualTheSameWeightsInF32) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    LoadedModel half = subject(GetParam());
    for (const auto& p : half.model->parameters().all())
      if (p->value.defined()) p->value = p->value.to(type);
    ScratchFolder folder;
    ASSERT_TRUE(save_model(folder.path(), *half.model, *half.family).ok());
    auto half_loaded = load_model(folder.path(), {false}), f32_loaded = load_model(folder.path(), {true});
    ASSERT_TRUE(half_loaded.ok() && f32_loaded.ok());
    int half_tensors = 0;
    for (const auto& p : half_loaded->model->parameters().all()) half_tensors += p->value.dtype() == type;
    EXPECT_GT(half_tensors, 4) << "matrices must stay in " << name(type);
    const Tensor expected = logits(*f32_loaded->model, device_, inputs_);
    EXPECT_TRUE(same_bits(logits(*half_loaded->model, device_, inputs_), expected)) << name(type);
    half_loaded->model->pack(device_);
    EXPECT_TRUE(same_bits(logits(*half_loaded->model, device_, inputs_), expected))
        << name(type) << " packed";
  }
}

// --- encoders and encoder-decoders ---

const std::vector<std::string> kEncoderDecoders = {"golden/t5-relu-tied",
                                                   "golden/t5-gated-gelu-untied",
                                                   "golden/bart",
                                                   "golden/marian-sinusoidal",
                                                   "small/t5",
                                                   "small/bart",
                                                   "small/rnn-none",
                                                   "small/lstm-general",
                                                   "small/gru-dot-monotonic",
                                                   "small/lstm-concat-predictive",
                                                   "small/gru-location",
                                                   "small/lstm-additive"};

class EncoderBits : public testing::TestWithParam<std::string> {
 protected:
  CpuDevice device_{2};
};
class CachedBits : public EncoderBits {};
INSTANTIATE_TEST_SUITE_P(Encoders, EncoderBits,
                         testing::Values("golden/bert-pretraining", "golden/roberta-mlm",
                                         "golden/distilbert-mlm", "golden/albert-mlm", "small/bert"),
                         test_name);
INSTANTIATE_TEST_SUITE_P(EncoderDecoders, EncoderBits, testing::ValuesIn(kEncoderDecoders), test_name);
INSTANTIATE_TEST_SUITE_P(EncoderDecoders, CachedBits, testing::ValuesIn(kEncoderDecoders), test_name);

TEST_P(EncoderBits, AloneEqualsAmong32Others) {
  const LoadedModel loaded = subject(GetParam());
  const ModelSpec& spec = loaded.model->spec();
  const int64_t max_length = std::min<int64_t>(longest(spec), 140) - 2;
  const auto source = random_ids(spec, max_length, 1), target = random_ids(spec, max_length - 5, 2);
  Inputs single, all;
  single.source.add(source), single.target.add(target);
  all.source = batch_with_others(spec, source, max_length, 100),
  all.target = batch_with_others(spec, target, max_length, 200);
  const Sequence own_rows = (spec.decoder ? all.target : all.source).sequences[kOwnIndex];
  const Tensor expected = logits(*loaded.model, device_, single);
  EXPECT_TRUE(same_bits(rows_of(logits(*loaded.model, device_, all), own_rows), expected));
  for (const int threads : {1, 5}) {
    CpuDevice device(threads);
    EXPECT_TRUE(same_bits(rows_of(logits(*loaded.model, device, all), own_rows), expected))
        << threads << " threads";
  }
}

TEST_P(CachedBits, CachedDecodingEqualsOneForwardPass) {
  const LoadedModel loaded = subject(GetParam());
  const ModelSpec& spec = loaded.model->spec();
  const int64_t max_length = std::min<int64_t>(longest(spec), 140);
  const auto target = random_ids(spec, max_length, 2);
  Inputs in;
  in.source.add(random_ids(spec, max_length - 7, 1)), in.target.add(target);
  const Tensor expected = logits(*loaded.model, device_, in);
  Context ctx{device_};
  for (const int64_t chunk : {1, 7}) {
    KvCache cache(*spec.decoder, 1);
    ForwardContext f{ctx, &cache};
    const Tensor encoded = loaded.model->encode(f, in.source);
    for (int64_t past = 0; past < max_length; past += chunk) {
      const int64_t end = std::min(past + chunk, max_length);
      Batch part;
      part.add({target.begin() + past, target.begin() + end}, past);
      part.sequences[0].past = past;
      const Tensor got = loaded.model->lm_logits(ctx, loaded.model->decode(f, part, encoded, &in.source));
      ASSERT_TRUE(same_bits(got, expected.slice(past, end))) << "chunks of " << chunk << " at " << past;
    }
  }
}

// --- do these comparisons detect a wrong order? ---

// One layer of Llama written out, with a pluggable attention.
template <class Attend>
Tensor llama_by_hand(Context& ctx, const Model& model, const std::vector<int64_t>& ids, Attend&& attend) {
  const auto value = [&](const std::string& name) { return model.parameters().find(name)->value; };
  const std::string prefix = "decoder.layers.0.";
  const BlockSpec& b = model.spec().decoder->first();
  const AttentionSpec& a = b.attention;
  std::vector<int64_t> positions(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) positions[i] = static_cast<int64_t>(i);
  const auto table = ops::rope_table(ctx, positions, ops::rope_frequencies(*a.rope, 0));
  const Tensor x = ops::embedding(ctx, value("decoder.embed.tokens.weight"), ids);
  const Tensor n =
      ops::rms_norm(ctx, x, value(prefix + "norm1.weight"), model.spec().decoder->norm.eps, 0.0f);
  const Tensor q =
      ops::rope(ctx, ops::linear(ctx, n, value(prefix + "attn.q.weight")), a.heads, *a.rope, table);
  const Tensor k =
      ops::rope(ctx, ops::linear(ctx, n, value(prefix + "attn.k.weight")), a.kv_heads, *a.rope, table);
  const Tensor attended = attend(q, k, ops::linear(ctx, n, value(prefix + "attn.v.weight")));
  const Tensor y = ops::add(ctx, x, ops::linear(ctx, attended, value(prefix + "attn.o.weight")));
  const Tensor m =
      ops::rms_norm(ctx, y, value(prefix + "norm2.weight"), model.spec().decoder->norm.eps, 0.0f);
  const Tensor gated =
      ops::gated(ctx, ops::linear(ctx, m, value(prefix + "ffn.gate.weight")),
                 ops::linear(ctx, m, value(prefix + "ffn.up.weight")), b.feed_forward.activation);
  const Tensor z = ops::add(ctx, y, ops::linear(ctx, gated, value(prefix + "ffn.down.weight")));
  return model.lm_logits(
      ctx, ops::rms_norm(ctx, z, value("decoder.norm.weight"), model.spec().decoder->norm.eps, 0.0f));
}

// Softmax over tiles of keys that start at `origin`, with running maximum and sum: exact arithmetic gives the
// same result for every origin. An origin above 0 stands for a decoder whose tiles start at a chunk.
Tensor tiled_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& a,
                       int64_t origin, int64_t tile) {
  Tensor out = Tensor::zeros(q.shape());
  const int64_t rows = q.dim(0), dim = a.head_dim, group = a.heads / a.kv_heads;
  for (int64_t h = 0; h < a.heads; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      const float* query = q.f32() + i * q.dim(1) + h * dim;
      float maximum = -INFINITY, sum = 0;
      std::vector<float> mix(static_cast<size_t>(dim), 0.0f);
      for (int64_t begin = 0; begin <= i;) {
        const int64_t end = std::min(i + 1, begin < origin ? origin : begin + tile);
        std::vector<float> score;
        float tile_maximum = maximum;
        for (int64_t j = begin; j < end; ++j) {
          float s = 0;
          for (int64_t d = 0; d < dim; ++d)
            s = std::fma(query[d], k.f32()[j * k.dim(1) + h / group * dim + d], s);
          score.push_back(s * a.scale), tile_maximum = std::max(tile_maximum, score.back());
        }
        const float rescale = std::exp(maximum - tile_maximum);
        sum *= rescale, maximum = tile_maximum;
        for (float& x : mix) x *= rescale;
        for (int64_t j = begin; j < end; ++j) {
          const float w = std::exp(score[static_cast<size_t>(j - begin)] - maximum);
          sum += w;
          for (int64_t d = 0; d < dim; ++d)
            mix[static_cast<size_t>(d)] =
                std::fma(w, v.f32()[j * v.dim(1) + h / group * dim + d], mix[static_cast<size_t>(d)]);
        }
        begin = end;
      }
      for (int64_t d = 0; d < dim; ++d)
        out.f32()[i * q.dim(1) + h * dim + d] = mix[static_cast<size_t>(d)] / sum;
    }
  return out;
}

TEST(BrokenBits, ADifferentTileOriginIsDetected) {
  Json config = small_config("llama");
  config["num_hidden_layers"] = 1;
  const LoadedModel loaded = small_model(config);
  const AttentionSpec& a = loaded.model->spec().decoder->first().attention;
  const auto ids = random_ids(loaded.model->spec(), 215, 1);
  CpuDevice device(2);
  Context ctx{device};
  Inputs in;
  in.source.add(ids);
  const Tensor expected = logits(*loaded.model, device, in);
  // With makar's own attention, llama_by_hand equals the model bit for bit, so the results below differ only
  // in the order of keys.
  const Tensor by_hand =
      llama_by_hand(ctx, *loaded.model, ids, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
        return ops::attention(ctx, q, k, v, {{0, 215, 0, 215, 0}},
                              {a.heads, a.kv_heads, a.head_dim, true, 0, a.scale, 0, 0});
      });
  EXPECT_TRUE(same_bits(by_hand, expected));
  const auto tiled = [&](int64_t origin) {
    return llama_by_hand(ctx, *loaded.model, ids, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      return tiled_attention(q, k, v, a, origin, 32);
    });
  };
  const Tensor at_start = tiled(0), at_chunk = tiled(7);
  EXPECT_LT(relative_error(at_chunk, expected), 1e-5);
  EXPECT_LT(relative_error(at_start, at_chunk), 1e-5);
  EXPECT_TRUE(same_bits(at_start, tiled(0)));
  EXPECT_FALSE(same_bits(at_start, at_chunk)) << "the comparison must detect where the tiles start";
}

}  // namespace
}  // namespace makar
