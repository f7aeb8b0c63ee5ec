#include "formats/llama2c.h"

#include <array>
#include <cstring>

#include "base/file.h"

namespace makar {
namespace {

struct Sizes {
  int64_t width, feed_forward, layers, heads, kv_heads, vocab, positions;
  bool shared;  // the output matrix is the token table
};

constexpr size_t kHeader = 28;

Result<Sizes> read_sizes(std::span<const std::byte> bytes, const std::string& place) {
  std::array<int32_t, 7> n;
  if (bytes.size() < kHeader)
    return error_at(place, "has {} bytes; a llama2.c checkpoint starts with 28 bytes of sizes", bytes.size());
  std::memcpy(n.data(), bytes.data(), kHeader);
  if (n[0] == 0x616b3432)
    return error_of(
        Error::Kind::kUnsupported, place,
        "is a newer llama2.c checkpoint (ak42); the first format is read: export it with --version 0");
  const bool shared = n[5] > 0;
  const Sizes s{n[0], n[1], n[2], n[3], n[4], shared ? n[5] : -int64_t{n[5]}, n[6], shared};
  const auto bad = [&](const char* what, int64_t value) {
    return error_at(place, "its header names {} {}, which is impossible; is this a llama2.c checkpoint?",
                    value, what);
  };
  constexpr int64_t kMost = 1 << 20;
  if (s.width < 1 || s.width > kMost) return bad("as its width", s.width);
  if (s.feed_forward < 1 || s.feed_forward > kMost) return bad("as its feed-forward width", s.feed_forward);
  if (s.layers < 1 || s.layers > 1024) return bad("layers", s.layers);
  if (s.heads < 1 || s.width % s.heads != 0 || s.width / s.heads % 2 != 0) return bad("heads", s.heads);
  if (s.kv_heads < 1 || s.heads % s.kv_heads != 0) return bad("heads of keys and values", s.kv_heads);
  if (s.vocab < 1 || s.vocab > 1 << 23) return bad("tokens", s.vocab);
  if (s.positions < 1 || s.positions > 1 << 24) return bad("positions", s.positions);
  return s;
}

// Walks the file in its order: each kind of tensor for all layers, then the next kind.
class Layout {
 public:
  explicit Layout(std::vector<GgufTensor>& out) : out_(out) {}
  void one(const std::string& name, const Shape& shape) {
    const size_t bytes = static_cast<size_t>(shape.count()) * 4;
    out_.push_back({name, DType::kF32, shape, at_, at_ + bytes});
    at_ += bytes;
  }
  void each_layer(int64_t layers, const std::string& name, const Shape& shape) {
    for (int64_t i = 0; i < layers; ++i) one(fmt::format("blk.{}.{}.weight", i, name), shape);
  }
  void skip(int64_t values) { at_ += static_cast<size_t>(values) * 4; }
  size_t end() const { return at_; }

 private:
  std::vector<GgufTensor>& out_;
  size_t at_ = kHeader;
};

size_t lay_out(const Sizes& s, std::vector<GgufTensor>& out) {
  const int64_t kv = s.width / s.heads * s.kv_heads;
  Layout l(out);
  l.one("token_embd.weight", {s.vocab, s.width});
  l.each_layer(s.layers, "attn_norm", {s.width});
  l.each_layer(s.layers, "attn_q", {s.width, s.width});
  l.each_layer(s.layers, "attn_k", {kv, s.width});
  l.each_layer(s.layers, "attn_v", {kv, s.width});
  l.each_layer(s.layers, "attn_output", {s.width, s.width});
  l.each_layer(s.layers, "ffn_norm", {s.width});
  l.each_layer(s.layers, "ffn_gate", {s.feed_forward, s.width});
  l.each_layer(s.layers, "ffn_down", {s.width, s.feed_forward});
  l.each_layer(s.layers, "ffn_up", {s.feed_forward, s.width});
  l.one("output_norm.weight", {s.width});
  l.skip(s.positions * (s.width / s.heads));  // cosines and sines of the positions
  if (!s.shared) l.one("output.weight", {s.vocab, s.width});
  return l.end();
}

GgufFields fields_of(const Sizes& s) {
  GgufFields f;
  const auto number = [&](const char* key, int64_t v) {
    f.set(key, GgufValue::u32(static_cast<uint32_t>(v)));
  };
  f.set("general.architecture", GgufValue::text("llama"));
  number("llama.context_length", s.positions);
  number("llama.embedding_length", s.width);
  number("llama.block_count", s.layers);
  number("llama.feed_forward_length", s.feed_forward);
  number("llama.attention.head_count", s.heads);
  number("llama.attention.head_count_kv", s.kv_heads);
  f.set("llama.attention.layer_norm_rms_epsilon", GgufValue::f32(1e-5f));
  number("tokenizer.ggml.bos_token_id", 1);
  number("tokenizer.ggml.eos_token_id", 2);
  return f;
}

}  // namespace

Result<Gguf::File> open_llama2c(const std::string& path) {
  MAKAR_TRY(const auto map, MappedFile::open(path));
  return parse_llama2c(map->bytes(), map, path);
}

Result<Gguf::File> parse_llama2c(std::span<const std::byte> bytes, std::shared_ptr<const void> keeper,
                                 std::string place) {
  MAKAR_TRY(const Sizes sizes, read_sizes(bytes, place));
  std::vector<GgufTensor> tensors;
  const size_t need = lay_out(sizes, tensors);
  if (need != bytes.size())
    return error_at(place,
                    "has {} bytes where its header asks for {}; the download is incomplete, or this is no "
                    "llama2.c checkpoint in f32",
                    bytes.size(), need);
  return Gguf::of(bytes, std::move(keeper), std::move(place), fields_of(sizes), std::move(tensors));
}

Result<GgufFields> parse_llama2c_tokenizer(std::span<const std::byte> bytes, int64_t vocab,
                                           const std::string& place) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  size_t at = 4;  // the length of the longest token comes first
  const auto cut_off = [&] {
    return error_at(place, "ends at byte {} with {} of {} tokens; is it the tokenizer of this model?",
                    bytes.size(), tokens.size(), vocab);
  };
  for (int64_t i = 0; i < vocab; ++i) {
    float score;
    int32_t size;
    if (bytes.size() < 8 || at > bytes.size() - 8) return cut_off();
    std::memcpy(&score, bytes.data() + at, 4);
    std::memcpy(&size, bytes.data() + at + 4, 4);
    at += 8;
    if (size < 0 || static_cast<size_t>(size) > bytes.size() - at) return cut_off();
    std::string text(reinterpret_cast<const char*>(bytes.data()) + at, static_cast<size_t>(size));
    at += static_cast<size_t>(size);
    const bool byte = i >= 3 && i < 259 && text.size() == 6 && text.starts_with("<0x");
    if (i < 3) text = i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>";  // llama2.c writes them with line feeds
    for (size_t p = text.find(' '); p != text.npos && !byte; p = text.find(' ', p))
      text.replace(p, 1, "\u2581");
    tokens.push_back(text);
    scores.push_back(score);
    types.push_back(i == 0 ? 2 : i < 3 ? 3 : byte ? 6 : 1);
  }
  if (at != bytes.size())
    return error_at(place, "holds more than the {} tokens of the model; it belongs to another", vocab);
  GgufFields f;
  f.set("tokenizer.ggml.model", GgufValue::text("llama"));
  f.set("tokenizer.ggml.pre", GgufValue::text("default"));
  f.set("tokenizer.ggml.tokens", GgufValue::texts(tokens));
  f.set("tokenizer.ggml.scores", GgufValue::f32s(scores));
  f.set("tokenizer.ggml.token_type", GgufValue::i32s(types));
  f.set("tokenizer.ggml.bos_token_id", GgufValue::u32(1));
  f.set("tokenizer.ggml.eos_token_id", GgufValue::u32(2));
  f.set("tokenizer.ggml.unknown_token_id", GgufValue::u32(0));
  f.set("tokenizer.ggml.add_bos_token", GgufValue::flag(true));
  return f;
}

}  // namespace makar
