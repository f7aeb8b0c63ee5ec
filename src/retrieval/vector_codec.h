// Vectors as bytes: f32, or int8 with one scale per vector; their similarities.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace makar {

enum class VectorType { kF32, kInt8 };
enum class Similarity { kCosine, kDot, kL2 };  // larger is nearer: L2 is the negative squared distance
const char* name(VectorType type);
const char* name(Similarity similarity);
Result<VectorType> parse_vector_type(const std::string& name, const std::string& place);
Result<Similarity> parse_similarity(const std::string& name, const std::string& place);

// Sums in 16 lanes and a fixed tree: the same bits on every instruction set.
float dot_product(const float* a, const float* b, int64_t width);
float squared_distance(const float* a, const float* b, int64_t width);
// The same of one vector and several rows, with the same bits.
void dot_products(const float* a, std::span<const float* const> rows, int64_t width, float* out);
void squared_distances(const float* a, std::span<const float* const> rows, int64_t width, float* out);
int32_t dot_product(const int8_t* a, const int8_t* b, int64_t width);

// Scales a vector to length 1; a zero vector stays zero.
void normalize_vector(std::vector<float>& vector);

// int8: value = scale * q with q from -127 to 127, scale = largest magnitude / 127.
struct Int8Vector {
  float scale = 0;
  std::vector<int8_t> values;
};
Int8Vector to_int8(const float* vector, int64_t width);

// What is stored: f32 values, or the scale followed by int8 values.
std::string encode_vector(const std::vector<float>& vector, VectorType type);
Result<std::vector<float>> decode_vector(std::string_view bytes, VectorType type, const std::string& place);

}  // namespace makar
