#include "retrieval/vector_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace makar {
namespace {

// Compiled for AVX2 and AVX-512 too; the dynamic loader chooses. Floating-point contraction is off, so all
// give the same bits.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define MAKAR_TARGET_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MAKAR_TARGET_CLONES
#endif

// Vectors of the language instead of loops over arrays, which clang 14 turns into shuffles.
constexpr int kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

#define MAKAR_INLINE __attribute__((always_inline)) inline

MAKAR_INLINE void load(const float* from, Lanes& to) { std::memcpy(&to, from, sizeof to); }
// The last `count` values, then zeros.
MAKAR_INLINE void load_tail(const float* from, int64_t count, Lanes& to) {
  to = Lanes{};
  std::memcpy(&to, from, static_cast<size_t>(count) * sizeof(float));
}

MAKAR_INLINE float sum_lanes(const Lanes& lanes) {
  float s[kLanes / 2];
  for (int i = 0; i < 8; ++i) s[i] = lanes[i] + lanes[i + 8];
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

// Products or squared differences of one vector and `kRows` others, added up.
template <int kRows, bool kSquares>
MAKAR_INLINE void sum_rows(const float* a, const float* const* rows, int64_t width, float* out) {
  Lanes sums[kRows] = {}, x, y;
  const auto add = [&](int row) {
    if constexpr (kSquares)
      y = x - y, sums[row] += y * y;
    else
      sums[row] += x * y;
  };
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    load(a + i, x);
    for (int r = 0; r < kRows; ++r) load(rows[r] + i, y), add(r);
  }
  if (i < width) {
    load_tail(a + i, width - i, x);
    for (int r = 0; r < kRows; ++r) load_tail(rows[r] + i, width - i, y), add(r);
  }
  for (int r = 0; r < kRows; ++r) out[r] = sum_lanes(sums[r]);
}

MAKAR_TARGET_CLONES void dot_1(const float* a, const float* const* rows, int64_t width, float* out) {
  sum_rows<1, false>(a, rows, width, out);
}
MAKAR_TARGET_CLONES void dot_4(const float* a, const float* const* rows, int64_t width, float* out) {
  sum_rows<4, false>(a, rows, width, out);
}
MAKAR_TARGET_CLONES void squares_1(const float* a, const float* const* rows, int64_t width, float* out) {
  sum_rows<1, true>(a, rows, width, out);
}
MAKAR_TARGET_CLONES void squares_4(const float* a, const float* const* rows, int64_t width, float* out) {
  sum_rows<4, true>(a, rows, width, out);
}

MAKAR_TARGET_CLONES int32_t dot_int8(const int8_t* a, const int8_t* b, int64_t width) {
  int32_t sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += static_cast<int32_t>(a[i]) * static_cast<int32_t>(b[i]);
  return sum;
}

}  // namespace

const char* name(VectorType type) { return type == VectorType::kF32 ? "f32" : "int8"; }
const char* name(Similarity s) {
  return s == Similarity::kCosine ? "cosine" : s == Similarity::kDot ? "dot" : "l2";
}

Result<VectorType> parse_vector_type(const std::string& text, const std::string& place) {
  for (const VectorType type : {VectorType::kF32, VectorType::kInt8})
    if (text == name(type)) return type;
  return error_at(place, "expected f32 or int8, got '{}'", text);
}

Result<Similarity> parse_similarity(const std::string& text, const std::string& place) {
  for (const Similarity s : {Similarity::kCosine, Similarity::kDot, Similarity::kL2})
    if (text == name(s)) return s;
  return error_at(place, "expected cosine, dot or l2, got '{}'", text);
}

float dot_product(const float* a, const float* b, int64_t width) {
  float out;
  return dot_1(a, &b, width, &out), out;
}
float squared_distance(const float* a, const float* b, int64_t width) {
  float out;
  return squares_1(a, &b, width, &out), out;
}
void dot_products(const float* a, std::span<const float* const> rows, int64_t width, float* out) {
  size_t i = 0;
  for (; i + 4 <= rows.size(); i += 4) dot_4(a, rows.data() + i, width, out + i);
  for (; i < rows.size(); ++i) dot_1(a, rows.data() + i, width, out + i);
}
void squared_distances(const float* a, std::span<const float* const> rows, int64_t width, float* out) {
  size_t i = 0;
  for (; i + 4 <= rows.size(); i += 4) squares_4(a, rows.data() + i, width, out + i);
  for (; i < rows.size(); ++i) squares_1(a, rows.data() + i, width, out + i);
}
int32_t dot_product(const int8_t* a, const int8_t* b, int64_t width) { return dot_int8(a, b, width); }

void normalize_vector(std::vector<float>& vector) {
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * x;
  if (sum <= 0) return;
  const double scale = 1 / std::sqrt(sum);
  for (float& x : vector) x = static_cast<float>(x * scale);
}

Int8Vector to_int8(const float* vector, int64_t width) {
  float largest = 0;
  for (int64_t i = 0; i < width; ++i) largest = std::max(largest, std::fabs(vector[i]));
  Int8Vector out{largest / 127, std::vector<int8_t>(static_cast<size_t>(width), 0)};
  if (largest > 0)
    for (int64_t i = 0; i < width; ++i)
      out.values[static_cast<size_t>(i)] =
          static_cast<int8_t>(std::clamp(std::lround(vector[i] / out.scale), -127L, 127L));
  return out;
}

std::string encode_vector(const std::vector<float>& vector, VectorType type) {
  if (type == VectorType::kF32)
    return {reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)};
  const Int8Vector quantized = to_int8(vector.data(), static_cast<int64_t>(vector.size()));
  std::string out(reinterpret_cast<const char*>(&quantized.scale), sizeof(float));
  return out.append(reinterpret_cast<const char*>(quantized.values.data()), quantized.values.size());
}

Result<std::vector<float>> decode_vector(std::string_view bytes, VectorType type, const std::string& place) {
  const auto damaged = [&] { return error_at(place, "a vector is damaged; build the index again"); };
  std::vector<float> out;
  if (type == VectorType::kF32) {
    if (bytes.empty() || bytes.size() % sizeof(float)) return damaged();
    out.resize(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
  } else {
    if (bytes.size() <= sizeof(float)) return damaged();
    float scale = 0;
    std::memcpy(&scale, bytes.data(), sizeof scale);
    for (const char c : bytes.substr(sizeof(float)))
      out.push_back(scale * static_cast<float>(static_cast<int8_t>(c)));
  }
  for (const float x : out)
    if (!std::isfinite(x)) return damaged();
  return out;
}

}  // namespace makar
