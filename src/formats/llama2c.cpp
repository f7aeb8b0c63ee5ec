#include "formats/llama2c.h"

#include <array>
#include <cstring>

#include "base/file.h"

namespace makar {
namespace {

struct Sizes {
  int64_t width, feed_forward, layers, heads, kv_heads, vocab, positions;
  bool shared;  // the output matrix is the token embedding
  int version = 0;
  int64_t group = 1;  // version 2: how many weights share a scale
};

constexpr size_t kHeaderBytes = 28, kNewHeaderBytes = 256;
constexpr int32_t kMagic = 0x616b3432;  // "ak42": versions 1 and 2

Result<Sizes> check_sizes(const Sizes& s, const std::string& place) {
  const auto size_error = [&](const char* what, int64_t value) {
    return error_at(place, "its header gives {} {}, which is out of range; is this a llama2.c checkpoint?",
                    value, what);
  };
  constexpr int64_t kMaxWidth = 1 << 20;
  if (s.width < 1 || s.width > kMaxWidth) return size_error("as its width", s.width);
  if (s.feed_forward < 1 || s.feed_forward > kMaxWidth)
    return size_error("as its feed-forward width", s.feed_forward);
  if (s.layers < 1 || s.layers > 1024) return size_error("layers", s.layers);
  if (s.heads < 1 || s.width % s.heads != 0 || s.width / s.heads % 2 != 0)
    return size_error("heads", s.heads);
  if (s.kv_heads < 1 || s.heads % s.kv_heads != 0) return size_error("heads of keys and values", s.kv_heads);
  if (s.vocab < 1 || s.vocab > 1 << 23) return size_error("tokens", s.vocab);
  if (s.positions < 1 || s.positions > 1 << 24) return size_error("positions", s.positions);
  // Groups are contiguous in a row, and the length of every row is a multiple of one of the two widths.
  if (s.group < 1 || s.width % s.group != 0 || s.feed_forward % s.group != 0)
    return size_error("weights per scale", s.group);
  return s;
}

Result<Sizes> read_sizes(std::span<const std::byte> bytes, const std::string& place) {
  std::array<int32_t, 7> n;
  const auto read = [&](size_t at) { std::memcpy(n.data(), bytes.data() + at, sizeof n); };
  if (bytes.size() < kHeaderBytes)
    return error_at(place, "has {} bytes; a llama2.c checkpoint starts with a header of {} bytes",
                    bytes.size(), kHeaderBytes);
  read(0);
  if (n[0] != kMagic) {
    const bool shared = n[5] > 0;
    return check_sizes({n[0], n[1], n[2], n[3], n[4], shared ? n[5] : -int64_t{n[5]}, n[6], shared}, place);
  }
  const int32_t version = n[1];
  if (version != 1 && version != 2)
    return error_of(Error::Kind::kUnsupported, place, "is llama2.c version {}; supported are 0, 1 and 2",
                    version);
  if (bytes.size() < kNewHeaderBytes)
    return error_at(place, "has {} bytes; llama2.c version {} starts with a header of {}", bytes.size(),
                    version, kNewHeaderBytes);
  read(8);
  Sizes s{n[0], n[1], n[2], n[3], n[4], n[5], n[6], bytes[36] != std::byte{0}, version};
  if (version == 2) {
    int32_t group;
    std::memcpy(&group, bytes.data() + 37, 4);
    s.group = group;
  }
  return check_sizes(s, place);
}

// Walks the file in order: one kind of tensor for all layers, then the next kind. begin and end are offsets
// in the file; for the matrices of version 2, they cover the integers and the scales after them.
class Layout {
 public:
  Layout(const Sizes& sizes, size_t begin, std::vector<GgufTensor>& out)
      : sizes_(sizes), out_(out), at_(begin) {}
  void add_tensor(const std::string& name, const Shape& shape) {
    const auto count = static_cast<size_t>(shape.count());
    const size_t bytes = sizes_.version == 2 && shape.rank() == 2
                             ? count + count / static_cast<size_t>(sizes_.group) * 4
                             : count * 4;
    out_.push_back({name + ".weight", DType::kF32, shape, at_, at_ + bytes});
    at_ += bytes;
  }
  void each_layer(const std::string& name, const Shape& shape) {
    for (int64_t i = 0; i < sizes_.layers; ++i) add_tensor(fmt::format("blk.{}.{}", i, name), shape);
  }
  void skip(int64_t values) { at_ += static_cast<size_t>(values) * 4; }
  size_t end() const { return at_; }

 private:
  const Sizes& sizes_;
  std::vector<GgufTensor>& out_;
  size_t at_;
};

size_t describe_tensors(const Sizes& s, std::vector<GgufTensor>& out) {
  const int64_t kv_width = s.width / s.heads * s.kv_heads;
  const bool first = s.version == 0;  // the first format: norms are interleaved with the matrices
  Layout l(s, first ? kHeaderBytes : kNewHeaderBytes, out);
  if (!first) l.each_layer("attn_norm", {s.width}), l.each_layer("ffn_norm", {s.width});
  if (!first) l.add_tensor("output_norm", {s.width});
  l.add_tensor("token_embd", {s.vocab, s.width});
  if (first) l.each_layer("attn_norm", {s.width});
  l.each_layer("attn_q", {s.width, s.width});
  l.each_layer("attn_k", {kv_width, s.width});
  l.each_layer("attn_v", {kv_width, s.width});
  l.each_layer("attn_output", {s.width, s.width});
  if (first) l.each_layer("ffn_norm", {s.width});
  l.each_layer("ffn_gate", {s.feed_forward, s.width});
  l.each_layer("ffn_down", {s.width, s.feed_forward});
  l.each_layer("ffn_up", {s.feed_forward, s.width});
  if (first) l.add_tensor("output_norm", {s.width});
  if (first) l.skip(s.positions * (s.width / s.heads));  // the cosine and sine tables
  if (!s.shared) l.add_tensor("output", {s.vocab, s.width});
  return l.end();
}

// Version 2 dequantized to f32: int8 times the f32 scale of its group, which no GGUF type represents exactly.
Gguf::File decode(const Sizes& s, std::span<const std::byte> bytes, std::string place, GgufFields fields,
                  std::vector<GgufTensor> tensors) {
  size_t total = 0;
  for (const GgufTensor& t : tensors) total += static_cast<size_t>(t.shape.count());
  const auto values = std::make_shared<std::vector<float>>(total);
  float* to = values->data();
  for (GgufTensor& t : tensors) {
    const std::byte* from = bytes.data() + t.begin;
    const int64_t count = t.shape.count();
    if (t.shape.rank() == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * 4);
    } else {
      const auto* q = reinterpret_cast<const int8_t*>(from);
      for (int64_t g = 0; g < count / s.group; ++g) {
        float scale;
        std::memcpy(&scale, from + count + g * 4, 4);
        for (int64_t i = g * s.group; i < (g + 1) * s.group; ++i) to[i] = static_cast<float>(q[i]) * scale;
      }
    }
    t.begin = static_cast<size_t>(to - values->data()) * 4, t.end = t.begin + static_cast<size_t>(count) * 4;
    to += count;
  }
  return Gguf::of(std::as_bytes(std::span<const float>(*values)), values, std::move(place), std::move(fields),
                  std::move(tensors));
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

Result<Gguf::File> parse_llama2c(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                 std::string place) {
  MAKAR_TRY(const Sizes sizes, read_sizes(bytes, place));
  std::vector<GgufTensor> tensors;
  const size_t expected_bytes = describe_tensors(sizes, tensors);
  if (expected_bytes != bytes.size())
    return error_at(place,
                    "has {} bytes but its header implies {}; the download is incomplete, or this is not a "
                    "llama2.c checkpoint",
                    bytes.size(), expected_bytes);
  if (sizes.version == 2) return decode(sizes, bytes, std::move(place), fields_of(sizes), std::move(tensors));
  return Gguf::of(bytes, std::move(owner), std::move(place), fields_of(sizes), std::move(tensors));
}

Result<GgufFields> parse_llama2c_tokenizer(std::span<const std::byte> bytes, int64_t vocab,
                                           const std::string& place) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  size_t at = 4;  // the file starts with the length of the longest token
  const auto truncated = [&] {
    return error_at(place,
                    "ends at byte {} after {} of {} tokens; check that it is the tokenizer of this model",
                    bytes.size(), tokens.size(), vocab);
  };
  for (int64_t i = 0; i < vocab; ++i) {
    float score;
    int32_t size;
    if (bytes.size() < 8 || at > bytes.size() - 8) return truncated();
    std::memcpy(&score, bytes.data() + at, 4);
    std::memcpy(&size, bytes.data() + at + 4, 4);
    at += 8;
    if (size < 0 || static_cast<size_t>(size) > bytes.size() - at) return truncated();
    std::string text(reinterpret_cast<const char*>(bytes.data()) + at, static_cast<size_t>(size));
    at += static_cast<size_t>(size);
    const bool byte = i >= 3 && i < 259 && text.size() == 6 && text.starts_with("<0x");
    if (i < 3) text = i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>";  // llama2.c writes them with line feeds
    for (size_t p = text.find(' '); p != text.npos && !byte; p = text.find(' ', p))
      text.replace(p, 1, "\u2581");
    tokens.push_back(text);
    scores.push_back(score);
    types.push_back(i == 0 ? 2 : i < 3 ? 3 : byte ? 6 : 1);  // unknown, control, byte, normal
  }
  if (at != bytes.size())
    return error_at(place, "has more than the {} tokens of the model; it belongs to another model", vocab);
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
