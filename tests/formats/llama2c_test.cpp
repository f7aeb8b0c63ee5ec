// The three versions of llama2.c checkpoints give the same model.
#include "formats/llama2c.h"

#include <gtest/gtest.h>

#include <cmath>

namespace makar {
namespace {

constexpr int32_t kWidth = 8, kHidden = 16, kLayers = 2, kHeads = 2, kVocab = 5, kPositions = 4, kGroup = 4;

template <class T>
std::string raw(const T& v) {
  return {reinterpret_cast<const char*>(&v), sizeof v};
}
// Value i of tensor `seed`: multiples of 1/64 with a large one in every group, so that int8 is exact.
float value(int seed, int64_t i) {
  return i % kGroup == 0 ? 127.0f / 64 : static_cast<float>((i * 7 + seed * 13) % 127 - 63) / 64;
}
std::string f32_bytes(int seed, int64_t count) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) out += raw(value(seed, i));
  return out;
}
std::string int8_bytes(int seed, int64_t count) {
  std::string out, scales;
  for (int64_t i = 0; i < count; ++i) out += static_cast<char>(std::lround(value(seed, i) * 64));
  for (int64_t g = 0; g < count / kGroup; ++g) scales += raw(1.0f / 64);
  return out + scales;
}

// Seeds of the tensors: 0 the embedding, 10 l + 1 to 10 l + 9 the norms and matrices of layer l, 90 the final
// norm, 91 the output matrix.
std::string checkpoint(int version, bool shared) {
  std::string out;
  const auto ints = [&](std::vector<int32_t> n) {
    for (const int32_t v : n) out += raw(v);
  };
  const int32_t vocab = version == 0 && !shared ? -kVocab : kVocab;
  if (version > 0) ints({0x616b3432, version});
  ints({kWidth, kHidden, kLayers, kHeads, kHeads, vocab, kPositions});
  if (version > 0) {
    out += static_cast<char>(shared);
    if (version == 2) out += raw(kGroup);
    out.resize(256, '\0');
  }
  const auto matrix = [&](int seed, int64_t count) {
    out += version == 2 ? int8_bytes(seed, count) : f32_bytes(seed, count);
  };
  const auto norms = [&](int kind) {
    for (int l = 0; l < kLayers; ++l) out += f32_bytes(l * 10 + kind, kWidth);
  };
  const auto matrices = [&](int kind, int64_t count) {
    for (int l = 0; l < kLayers; ++l) matrix(l * 10 + kind, count);
  };
  if (version > 0) norms(1), norms(6), out += f32_bytes(90, kWidth);
  matrix(0, kVocab * kWidth);
  if (version == 0) norms(1);
  for (int kind = 2; kind <= 5; ++kind) matrices(kind, kWidth * kWidth);
  if (version == 0) norms(6);
  for (int kind = 7; kind <= 9; ++kind) matrices(kind, kWidth * kHidden);
  if (version == 0) out += f32_bytes(90, kWidth) + std::string(kPositions * (kWidth / kHeads) * 4, '\0');
  if (!shared) matrix(91, kVocab * kWidth);
  return out;
}

Result<Gguf::File> parse(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  return parse_llama2c(std::as_bytes(std::span(owner->data(), owner->size())), owner, "x.bin");
}

TEST(Llama2c, AllVersionsGiveTheSameModel) {
  for (const bool shared : {true, false}) {
    const auto version0 = parse(checkpoint(0, shared));
    ASSERT_TRUE(version0.ok()) << version0.error().text();
    for (const int version : {1, 2}) {
      const auto other = parse(checkpoint(version, shared));
      ASSERT_TRUE(other.ok()) << other.error().text();
      ASSERT_EQ((*other)->tensors().size(), (*version0)->tensors().size());
      for (const GgufTensor& t : (*version0)->tensors()) {
        const GgufTensor* o = (*other)->find(t.name);
        ASSERT_TRUE(o) << t.name;
        ASSERT_EQ(o->shape, t.shape);
        const Tensor a = (*version0)->view(t), b = (*other)->view(*o);
        for (int64_t i = 0; i < a.count(); ++i) ASSERT_EQ(a.f32()[i], b.f32()[i]) << t.name << " " << i;
      }
    }
  }
}

TEST(Llama2c, InvalidVersion1And2FilesAreErrors) {
  const auto expect = [](std::string bytes, size_t at, int32_t change, const std::string& part) {
    if (at + 4 <= bytes.size()) std::memcpy(bytes.data() + at, &change, 4);
    const auto file = parse(bytes);
    ASSERT_FALSE(file.ok()) << part;
    EXPECT_NE(file.error().text().find(part), std::string::npos) << file.error().text();
  };
  const std::string version1 = checkpoint(1, true), version2 = checkpoint(2, false);
  expect(version1, 4, 3, "version 3; supported are 0, 1 and 2");
  expect(version1, 4, 0, "version 0");
  expect(version1.substr(0, 100), 4, 1, "a header of 256");
  expect(version1, 8, 0, "0 as its width");
  expect(version1, 28, -5, "-5 tokens");
  expect(version2, 37, 0, "0 weights per scale");
  expect(version2, 37, 3, "3 weights per scale");
  expect(version2, 37, 8, "implies");
  expect(version1.substr(0, version1.size() - 1), 4, 1, "implies");
  expect(version2 + "x", 4, 2, "implies");
}

}  // namespace
}  // namespace makar
