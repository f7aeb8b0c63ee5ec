// A Llama of a given shape with random weights, as a GGUF file in F16, for `./dev bench llama`.
//   bench_llama_random_model 110m|1.1b OUT.gguf
// The vocabulary is artificial: 32000 SentencePiece tokens, so that both programs can tokenize a prompt.
#include <fmt/format.h>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "formats/gguf_writer.h"

using namespace makar;

namespace {

struct Sizes {
  const char* name;
  int64_t layers, width, heads, kv_heads, feed_forward;
  bool tied;
};
constexpr Sizes kSizes[] = {{"110m", 12, 768, 12, 12, 2048, true}, {"1.1b", 22, 2048, 32, 4, 5632, false}};
constexpr int64_t kVocab = 32000, kPositions = 2048;

GgufFields fields_of(const Sizes& s) {
  GgufFields f;
  const auto number = [&](const char* key, int64_t v) {
    f.set(key, GgufValue::u32(static_cast<uint32_t>(v)));
  };
  f.set("general.architecture", GgufValue::text("llama"));
  f.set("general.name", GgufValue::text(fmt::format("random {}", s.name)));
  number("general.file_type", 1);
  number("llama.vocab_size", kVocab);
  number("llama.context_length", kPositions);
  number("llama.embedding_length", s.width);
  number("llama.block_count", s.layers);
  number("llama.feed_forward_length", s.feed_forward);
  number("llama.attention.head_count", s.heads);
  number("llama.attention.head_count_kv", s.kv_heads);
  number("llama.rope.dimension_count", s.width / s.heads);
  f.set("llama.attention.layer_norm_rms_epsilon", GgufValue::f32(1e-5f));
  return f;
}

// Three special tokens, 256 bytes, then words: the number of a token in letters.
void set_vocabulary(GgufFields& f) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(fmt::format("<0x{:02X}>", byte)), types.push_back(6);
  for (int64_t i = 0; static_cast<int64_t>(tokens.size()) < kVocab; ++i) {
    std::string word;
    for (int64_t rest = i; rest >= 0; rest = rest / 26 - 1)
      word.insert(word.begin(), static_cast<char>('a' + rest % 26));
    tokens.push_back(i % 2 == 0 ? word : "\u2581" + word), types.push_back(1);
  }
  std::vector<float> scores;
  for (size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));
  f.set("tokenizer.ggml.model", GgufValue::text("llama"));
  f.set("tokenizer.ggml.pre", GgufValue::text("default"));
  f.set("tokenizer.ggml.tokens", GgufValue::texts(tokens));
  f.set("tokenizer.ggml.scores", GgufValue::f32s(scores));
  f.set("tokenizer.ggml.token_type", GgufValue::i32s(types));
  f.set("tokenizer.ggml.bos_token_id", GgufValue::u32(1));
  f.set("tokenizer.ggml.eos_token_id", GgufValue::u32(2));
  f.set("tokenizer.ggml.unknown_token_id", GgufValue::u32(0));
  f.set("tokenizer.ggml.add_bos_token", GgufValue::flag(true));
}

// Uniform in (-0.035, 0.035), a deviation of 0.02: eight values per draw, on all cores.
class RandomMatrices {
 public:
  RandomMatrices() {
    for (size_t i = 0; i < halves_.size(); ++i)
      halves_[i] = to_f16((static_cast<float>(i) + 0.5f - 32768.0f) / 32768.0f * 0.035f);
  }

  Tensor make(const Shape& shape, uint64_t seed) {
    Tensor t = Tensor::empty(shape, DType::kF16);
    const Rng rng(seed, Purpose::kSynthetic);
    auto* to = t.data<uint16_t>();
    pool_.for_ranges((t.count() + 7) / 8, 1 << 12, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * 8; i < std::min(end * 8, t.count()); i += 8) {
        const auto bits = rng.bits(static_cast<uint64_t>(i));
        for (int64_t j = 0; j < 8 && i + j < t.count(); ++j)
          to[i + j] = halves_[bits[static_cast<size_t>(j / 2)] >> (j % 2 * 16) & 0xffff];
      }
    });
    return t;
  }

 private:
  std::vector<uint16_t> halves_ = std::vector<uint16_t>(1 << 16);
  ThreadPool pool_;
};

std::vector<GgufTensorSource> tensors_of(const Sizes& s, RandomMatrices& random) {
  std::vector<GgufTensorSource> out;
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols) {
    out.push_back(
        {name + ".weight", DType::kF16, {rows, cols}, [=, &random, seed = out.size()]() -> Result<Tensor> {
           return random.make({rows, cols}, seed);
         }});
  };
  const auto norm = [&](const std::string& name) {
    out.push_back({name + ".weight", DType::kF32, {s.width}, [&s]() -> Result<Tensor> {
                     return Tensor::from({s.width}, std::vector<float>(static_cast<size_t>(s.width), 1.0f));
                   }});
  };
  const int64_t kv = s.width / s.heads * s.kv_heads;
  matrix("token_embd", kVocab, s.width);
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string at = fmt::format("blk.{}.", i);
    norm(at + "attn_norm"), norm(at + "ffn_norm");
    matrix(at + "attn_q", s.width, s.width), matrix(at + "attn_k", kv, s.width);
    matrix(at + "attn_v", kv, s.width), matrix(at + "attn_output", s.width, s.width);
    matrix(at + "ffn_gate", s.feed_forward, s.width), matrix(at + "ffn_up", s.feed_forward, s.width);
    matrix(at + "ffn_down", s.width, s.feed_forward);
  }
  norm("output_norm");
  if (!s.tied) matrix("output", kVocab, s.width);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  for (const Sizes& s : kSizes) {
    if (argc != 3 || argv[1] != std::string(s.name)) continue;
    GgufFields fields = fields_of(s);
    set_vocabulary(fields);
    RandomMatrices random;
    const Status done = write_gguf(argv[2], fields, tensors_of(s, random));
    if (done.ok()) return 0;
    fmt::print(stderr, "{}\n", done.error().text());
    return 1;
  }
  fmt::print(stderr, "usage: bench_llama_random_model 110m|1.1b OUT.gguf\n");
  return 2;
}
