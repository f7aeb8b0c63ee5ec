// The models of the bit-equality tests, and shared helpers.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "models/small_models.h"
#include "train/objective.h"

namespace makar {

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         !std::memcmp(a.raw(), b.raw(), a.bytes());
}

// The norm of a - b divided by the norm of b.
inline double relative_error(const Tensor& a, const Tensor& b) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < b.count(); ++i) {
    const double d = static_cast<double>(a.f32()[i]) - b.f32()[i];
    difference += d * d, norm += static_cast<double>(b.f32()[i]) * b.f32()[i];
  }
  return std::sqrt(difference / norm);
}

// "golden/llama": the folder of the fixture. "small/llama": random weights and 256 positions, so that
// sequences cross the tiles of 96 keys more than once.
inline LoadedModel subject(const std::string& name) {
  if (name.starts_with("small/")) return small_model(small_config(name.substr(6)));
  auto loaded = load_model(std::string(MAKAR_TEST_GOLDEN) + "/models/" + name.substr(7), {true});
  check(loaded.ok(), loaded.ok() ? "" : loaded.error().text());
  return std::move(*loaded);
}

inline std::vector<std::string> decoders() {
  return {"golden/gpt2",        "golden/llama",    "golden/mixtral",  "golden/gemma2", "golden/falcon-mqa",
          "golden/bloom-alibi", "golden/opt",      "golden/gpt-neox", "golden/qwen3",  "small/gpt2",
          "small/llama",        "small/mixtral",   "small/gemma2",    "small/bloom",   "small/gemma3_text",
          "small/gpt_oss",      "small/qwen2_moe", "small/cohere2",   "small/olmo2",   "small/deepseek_v3",
          "small/rnn",          "small/lstm",      "small/gru",       "golden/mamba",  "golden/lfm2",
          "small/mamba",        "small/mamba2",    "small/lfm2"};
}
inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

// The longest sequence that the tests use with a model.
inline int64_t longest(const ModelSpec& spec) {
  return spec.max_positions > 0 ? std::min<int64_t>(spec.max_positions, 215) : 215;
}

inline std::vector<int64_t> random_ids(const ModelSpec& spec, int64_t length, uint64_t salt) {
  std::vector<int64_t> ids;
  const Rng rng(salt, Purpose::kSynthetic);
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(
        3 + static_cast<int64_t>(rng.uniform(static_cast<uint64_t>(i)) * static_cast<float>(spec.vocab - 3)));
  return ids;
}

inline Tensor rows_of(const Tensor& all, const Sequence& s) { return all.slice(s.start, s.start + s.length); }

inline Tensor logits(const Model& model, Device& device, const Inputs& inputs, KvCache* cache = nullptr) {
  Context ctx{device};
  ForwardContext f{ctx, cache};
  const Tensor out = model.lm_logits(ctx, model.hidden(f, inputs));
  for (const float x : out.span())
    check(std::isfinite(x), "logits must be finite, or comparing their bits is meaningless");
  return out;
}

// 33 sequences of different lengths; the one at kOwnIndex is `own`.
constexpr size_t kOwnIndex = 17;
inline Batch batch_with_others(const ModelSpec& spec, const std::vector<int64_t>& own, int64_t max_length,
                               uint64_t salt) {
  Batch batch;
  for (size_t s = 0; s < 33; ++s)
    batch.add(s == kOwnIndex ? own
                             : random_ids(spec, 1 + static_cast<int64_t>(s) * 37 % max_length, salt + s));
  return batch;
}

// The batch's tokens as labels [sequences, time], -100 as padding.
inline Labels labels_of(const Batch& batch) {
  int64_t time = 0;
  for (const Sequence& s : batch.sequences) time = std::max(time, s.length);
  std::vector<int64_t> values(batch.sequences.size() * static_cast<size_t>(time), -100);
  for (size_t i = 0; i < batch.sequences.size(); ++i)
    for (int64_t t = 0; t < batch.sequences[i].length; ++t)
      values[i * static_cast<size_t>(time) + static_cast<size_t>(t)] =
          batch.tokens[static_cast<size_t>(batch.sequences[i].start + t)];
  return {{"labels", Tensor::from({static_cast<int64_t>(batch.sequences.size()), time},
                                  std::span<const int64_t>(values))}};
}

}  // namespace makar
