// Decodes prequantized matrices: GPTQ and AWQ, FP8, MXFP4, and the 8-bit and 4-bit matrices of bitsandbytes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "base/quote.h"
#include "formats/prequantized.h"

namespace makar {
namespace {

using Parts = std::map<std::string, Tensor>;
constexpr int64_t kBlock = 32;  // elements of Q4_0 and Q8_0

// Converts to bf16 if that is exact for every value.
Tensor to_bf16_if_exact(const Tensor& t) {
  const auto* bits = reinterpret_cast<const uint32_t*>(t.f32());
  const bool exact = std::all_of(bits, bits + t.count(), [](uint32_t v) { return (v & 0xffffu) == 0; });
  return exact ? t.to(DType::kBF16) : t;
}

// The integers of GPTQ and AWQ as a matrix [in, out]: value(i, o) = scale(g, o) * (q(i, o) - zero(g, o)).
class Integers {
 public:
  Integers(const PrequantizedScheme& s, const PrequantizedMatrix& m, const Parts& parts)
      : gptq_(s.method == PrequantizedMethod::kGptq),
        bits_(static_cast<uint32_t>(s.bits)),
        per_word_(32 / s.bits),
        mask_((1u << s.bits) - 1),
        out_(m.shape[0]),
        in_(m.shape[1]),
        shift_zero_(gptq_ && s.zeros_less_one),
        words_(parts.at("qweight").data<uint32_t>()),
        zeros_(parts.at("qzeros").data<uint32_t>()),
        scales_(parts.at("scales").to(DType::kF32)) {
    const int64_t group = s.group > 0 ? std::min(s.group, in_) : in_;
    for (int64_t i = 0; i < in_; ++i) groups_.push_back(i / group);
  }

  // Sets the group of each input from GPTQ's g_idx; false if a group does not exist.
  bool use_index(const Tensor& index) {
    const auto* g = index.data<int32_t>();
    for (int64_t i = 0; i < in_; ++i) {
      if (g[i] < 0 || g[i] >= scales_.dim(0)) return false;
      groups_[static_cast<size_t>(i)] = g[i];
    }
    return true;
  }

  int32_t q(int64_t i, int64_t o) const {
    if (gptq_) return take(words_[i / per_word_ * out_ + o], i % per_word_);
    return take(words_[i * (out_ / per_word_) + o / per_word_], position(o % per_word_));
  }
  int32_t zero(int64_t g, int64_t o) const {
    const uint32_t word = zeros_[g * (out_ / per_word_) + o / per_word_];
    const int32_t z = take(word, gptq_ ? o % per_word_ : position(o % per_word_));
    return shift_zero_ ? static_cast<int32_t>((static_cast<uint32_t>(z) + 1) & mask_) : z;
  }
  float scale(int64_t g, int64_t o) const { return scales_.f32()[g * out_ + o]; }
  int64_t group(int64_t i) const { return groups_[static_cast<size_t>(i)]; }
  int64_t outputs() const { return out_; }
  int64_t inputs() const { return in_; }

  // Q4_0 or Q8_0 if that represents the matrix exactly, else f32.
  DType exact_type() const {
    if (in_ % kBlock != 0) return DType::kF32;
    for (int64_t i = 0; i < in_; ++i)
      if (group(i) != group(i / kBlock * kBlock)) return DType::kF32;
    bool centred = bits_ == 4;
    for (int64_t g = 0; g < scales_.dim(0); ++g)
      for (int64_t o = 0; o < out_; ++o) {
        const int32_t z = zero(g, o);
        const float s = scale(g, o);
        if (from_f16(to_f16(s)) != s) return DType::kF32;
        if (bits_ == 8 && z != 128) return DType::kF32;
        centred = centred && z == 8;
      }
    return centred ? DType::kQ4_0 : DType::kQ8_0;
  }

 private:
  int32_t take(uint32_t word, int64_t at) const {
    return static_cast<int32_t>((word >> (bits_ * static_cast<uint32_t>(at))) & mask_);
  }
  // Where AWQ's gemm order puts a column in its word: even columns first.
  int64_t position(int64_t column) const { return column / 2 + column % 2 * (per_word_ / 2); }

  bool gptq_;
  uint32_t bits_;
  int64_t per_word_;
  uint32_t mask_;
  int64_t out_, in_;
  bool shift_zero_;
  const uint32_t *words_, *zeros_;
  Tensor scales_;  // [groups, out]
  std::vector<int64_t> groups_;
};

Tensor decode_integers(const Integers& m) {
  const DType type = m.exact_type();
  const int64_t in = m.inputs(), out = m.outputs();
  Tensor t = Tensor::empty({out, in}, type);
  if (type == DType::kF32) {
    for (int64_t i = 0; i < in; ++i)
      for (int64_t o = 0, g = m.group(i); o < out; ++o)
        t.f32()[o * in + i] = m.scale(g, o) * static_cast<float>(m.q(i, o) - m.zero(g, o));
    return to_bf16_if_exact(t);
  }
  const size_t bytes = layout_of(type).bytes, row = bytes * static_cast<size_t>(in / kBlock);
  for (int64_t b = 0; b < in / kBlock; ++b)
    for (int64_t o = 0, g = m.group(b * kBlock); o < out; ++o) {
      std::byte* block = t.raw() + static_cast<size_t>(o) * row + static_cast<size_t>(b) * bytes;
      const uint16_t scale = to_f16(m.scale(g, o));
      std::memcpy(block, &scale, 2);
      auto* values = reinterpret_cast<uint8_t*>(block + 2);
      const int32_t z = m.zero(g, o);
      if (type == DType::kQ8_0)
        for (int64_t k = 0; k < kBlock; ++k) values[k] = static_cast<uint8_t>(m.q(b * kBlock + k, o) - z);
      else
        for (int64_t k = 0; k < kBlock / 2; ++k)
          values[k] = static_cast<uint8_t>(m.q(b * kBlock + k, o) | m.q(b * kBlock + k + kBlock / 2, o) << 4);
    }
  return t;
}

Tensor decode_fp8(const PrequantizedScheme& s, const Tensor& weight, const Tensor& stored_scale) {
  std::array<float, 256> values;  // by code
  for (size_t i = 0; i < 256; ++i) values[i] = from_f8_e4m3(static_cast<uint8_t>(i));
  const Tensor scale = stored_scale.to(DType::kF32);
  const int64_t rows = weight.dim(0), columns = weight.dim(1);
  int64_t block_rows = s.block_rows, block_columns = s.block_columns, blocks_per_row = 1;
  if (scale.count() == 1)
    block_rows = rows, block_columns = columns;
  else if (block_rows == 0 || scale.rank() == 1 || (scale.dim(1) == 1 && scale.dim(0) == rows))
    block_rows = 1, block_columns = columns;
  else
    blocks_per_row = scale.dim(1);
  Tensor out = Tensor::empty(weight.shape());
  const auto* w = weight.data<uint8_t>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      out.f32()[r * columns + c] =
          values[w[r * columns + c]] * scale.f32()[r / block_rows * blocks_per_row + c / block_columns];
  return to_bf16_if_exact(out);
}

// The values of e2m1, doubled so that they are integers.
constexpr int8_t kDoubledE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

Tensor decode_mxfp4(const Shape& shape, const Tensor& blocks, const Tensor& scales) {
  const auto* b = blocks.data<uint8_t>();
  const auto* e = scales.data<uint8_t>();
  const int64_t count = scales.count();
  // The scale of a block is 2^(e - 128) with the doubled values; f16 holds 2^-24 to 2^15.
  const bool fits = std::all_of(e, e + count, [](uint8_t v) { return v >= 104 && v <= 143; });
  Tensor out = Tensor::empty(shape, fits ? DType::kQ8_0 : DType::kF32);
  for (int64_t i = 0; i < count; ++i) {
    const float scale = e[i] == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, e[i] - 128);
    std::byte* block = out.raw() + static_cast<size_t>(i) * layout_of(DType::kQ8_0).bytes;
    const uint16_t scale_f16 = to_f16(scale);
    if (fits) std::memcpy(block, &scale_f16, 2);
    for (int64_t k = 0; k < kBlock; ++k) {
      const int8_t v = kDoubledE2m1[(b[i * 16 + k / 2] >> (k % 2 * 4)) & 15];
      if (fits)
        block[2 + k] = static_cast<std::byte>(v);
      else
        out.f32()[i * kBlock + k] = scale * static_cast<float>(v);
    }
  }
  return fits ? out : to_bf16_if_exact(out);
}

Tensor decode_int8(const Tensor& weight, const Tensor& absmax) {
  Tensor out = Tensor::empty(weight.shape());
  const Tensor scale = absmax.to(DType::kF32);
  const int64_t columns = weight.dim(1);
  const auto* w = weight.data<int8_t>();
  for (int64_t i = 0; i < out.count(); ++i)
    out.f32()[i] = static_cast<float>(w[i]) * scale.f32()[i / columns] / 127.0f;
  return to_bf16_if_exact(out);
}

Result<Config> state_of(const Tensor& state, const std::string& place) {
  return Config::parse({reinterpret_cast<const char*>(state.raw()), state.bytes()}, place);
}

// NF4 and FP4: each nibble, the high one first, indexes a table of 16 values. Every `blocksize` values share
// one absmax; with double quantization, the absmax values are themselves 8-bit blocks.
Result<Tensor> decode_four_bits(const Parts& p, const std::string& place) {
  const Tensor& state = p.at("state");
  MAKAR_TRY(const Shape shape, four_bit_shape(state, place));
  MAKAR_TRY(const Config c, state_of(state, place));
  MAKAR_TRY(const int64_t block, c.integer("blocksize", 1, 1 << 20));
  const Tensor &weight = p.at("weight"), &stored_absmax = p.at("absmax");
  const int64_t count = shape.count(), blocks = count / block + (count % block != 0);
  if (count / 2 + count % 2 != weight.count() || stored_absmax.count() != blocks)
    return error_at(place, "the shape {} does not fit the {} packed bytes and {} blocks", shape.text(),
                    weight.count(), stored_absmax.count());
  std::vector<float> absmax(static_cast<size_t>(blocks));
  if (p.count("nested_map")) {
    MAKAR_TRY(const int64_t nested_block, c.integer("nested_blocksize", 1, 1 << 20));
    MAKAR_TRY(const double offset, c.number("nested_offset", -1e30, 1e30));
    const Tensor& scale = p.at("nested_absmax");
    if (scale.count() != (blocks + nested_block - 1) / nested_block)
      return error_at(place, "has {} values of nested_absmax, which do not fit its {} blocks", scale.count(),
                      blocks);
    for (int64_t i = 0; i < blocks; ++i)
      absmax[static_cast<size_t>(i)] =
          p.at("nested_map").f32()[stored_absmax.data<uint8_t>()[i]] * scale.f32()[i / nested_block] +
          static_cast<float>(offset);
  } else {
    std::copy_n(stored_absmax.f32(), blocks, absmax.begin());
  }
  Tensor out = Tensor::empty(shape);
  const Tensor table = p.at("map").to(DType::kF32);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t byte = weight.data<uint8_t>()[i / 2];
    out.f32()[i] = table.f32()[i % 2 ? byte & 15 : byte >> 4] * absmax[static_cast<size_t>(i / block)];
  }
  return to_bf16_if_exact(out);
}

}  // namespace

Result<Shape> four_bit_shape(const Tensor& state, const std::string& place) {
  MAKAR_TRY(const Config c, state_of(state, place));
  MAKAR_TRY(const auto dims, c.integers("shape", 1, int64_t{1} << 31, 2));
  return Shape(dims);
}

Result<Tensor> decode_prequantized(const PrequantizedScheme& scheme, const PrequantizedMatrix& matrix,
                                   const Parts& parts, const std::string& place) {
  switch (scheme.method) {
    case PrequantizedMethod::kGptq:
    case PrequantizedMethod::kAwq: {
      Integers m(scheme, matrix, parts);
      if (const auto it = parts.find("g_idx"); it != parts.end() && !m.use_index(it->second))
        return error_at(place, "{} names a group that does not exist", quote(matrix.parts.at("g_idx")));
      return decode_integers(m);
    }
    case PrequantizedMethod::kFp8:
      return decode_fp8(scheme, parts.at("weight"), parts.at("scale"));
    case PrequantizedMethod::kMxfp4:
      return decode_mxfp4(matrix.shape, parts.at("blocks"), parts.at("scales"));
    case PrequantizedMethod::kBitsAndBytes:
      break;
  }
  if (parts.count("SCB")) return decode_int8(parts.at("weight"), parts.at("SCB"));
  return decode_four_bits(parts, place + ": " + matrix.parts.at("state"));
}

}  // namespace makar
