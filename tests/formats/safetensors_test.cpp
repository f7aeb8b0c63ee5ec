#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "formats/safetensors_bytes.h"
#include "formats/safetensors_writer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

using Kind = Error::Kind;

struct Broken {
  const char* what;
  std::string bytes;
  Kind kind;
  const char* message;
};

std::string one(const std::string& dtype, const std::string& shape, size_t begin, size_t end, size_t data) {
  return safetensors_bytes("{" + tensor_json("w", dtype, shape, begin, end) + "}", data);
}
std::string raw(const std::string& fields, size_t data = 8) {
  return safetensors_bytes("{\"w\":" + fields + "}", data);
}

std::vector<Broken> broken_files() {
  const auto inv = Kind::kInvalid;
  const std::string a = tensor_json("a", "F32", "[2]", 0, 8);
  const std::string valid = safetensors_bytes("{" + a + "}", 8);
  std::string huge(16, '\0');
  std::memset(huge.data(), 0xff, 8);
  return {
      {"empty", "", inv, "8 bytes of header length"},
      {"short", "abc", inv, "has 3 bytes"},
      {"header past the end", valid.substr(0, 30), inv, "only 22 follow"},
      {"huge header length", huge, inv, "18446744073709551615 bytes"},
      {"header over the bound", safetensors_bytes(std::string(Safetensors::kMaxHeaderBytes + 1, ' '), 0),
       Kind::kLimit, "at most 100000000"},
      {"lfs pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n", inv, "git lfs pull"},
      {"pickle", std::string("PK\x03\x04", 4) + std::string(60, 'x'), inv, "PyTorch pickle"},
      {"gguf", "GGUF" + std::string(60, 'x'), inv, "GGUF"},
      {"web page", "<!DOCTYPE html><html>", inv, "web page"},
      {"plain json", "{\"a\": 1, \"bcdef\": 2}", inv, "plain JSON"},
      {"empty header", safetensors_bytes("", 0), inv, "must start with '{'"},
      {"list header", safetensors_bytes("[]", 0), inv, "must start with '{'"},
      {"leading space", safetensors_bytes(" {}", 0), inv, "must start with '{'"},
      {"broken json", safetensors_bytes("{\"a\":", 0), inv, "not valid JSON at byte"},
      {"invalid utf-8", safetensors_bytes("{\"\xff\":{}}", 0), inv, "not valid JSON"},
      {"garbage after", safetensors_bytes("{}x", 0), inv, "not valid JSON"},
      {"zero byte", safetensors_bytes(std::string("{}\0x", 4), 0), inv, "zero byte at 10"},
      {"deep", safetensors_bytes("{\"w\":" + std::string(100000, '['), 0), inv,
       "'w' must be an object, found a list"},
      {"tensor null", raw("null"), inv, "must be an object, found null"},
      {"tensor number", raw("3"), inv, "must be an object, found 3"},
      {"no dtype", raw("{\"shape\":[2],\"data_offsets\":[0,8]}"), inv, "tensor 'w' has no dtype"},
      {"no shape", raw("{\"dtype\":\"F32\",\"data_offsets\":[0,8]}"), inv, "has no shape"},
      {"no offsets", raw("{\"dtype\":\"F32\",\"shape\":[2]}"), inv, "has no data_offsets"},
      {"extra field", raw("{\"dtype\":\"F32\",\"stride\":[2]}"), inv, "unknown field 'stride'"},
      {"field twice", raw("{\"dtype\":\"F32\",\"dtype\":\"F32\"}"), inv, "dtype is given twice"},
      {"dtype number", raw("{\"dtype\":32}"), inv, "dtype must be a string, found 32"},
      {"shape string", raw("{\"shape\":\"2\"}"), inv, "shape must be a list of integers"},
      {"unknown dtype", one("F33", "[2]", 0, 8, 8), inv, "unknown dtype 'F33'"},
      {"fp8", one("F8_E5M2", "[8]", 0, 8, 8), Kind::kUnsupported, "F8_E5M2, which is not supported"},
      {"negative dim", one("F32", "[-2]", 0, 8, 8), inv, "found -2"},
      {"fractional dim", one("F32", "[2.0]", 0, 8, 8), inv, "found the number '2.0'"},
      {"huge dim", one("F32", "[99999999999999999999]", 0, 8, 8), inv, "from 0 to 2^63 - 1"},
      {"dim past int64", one("F32", "[18446744073709551615]", 0, 8, 8), inv, "from 0 to 2^63 - 1"},
      {"nested dim", one("F32", "[[2]]", 0, 8, 8), inv, "found a list"},
      {"rank 7", one("F32", "[1,1,1,1,1,1,2]", 0, 8, 8), Kind::kUnsupported, "more than 6 dimensions"},
      {"overflow", one("F32", "[4294967296,4294967296]", 0, 8, 8), Kind::kLimit, "overflows 64 bits"},
      {"overflow hidden by zero", one("F32", "[4294967296,4294967296,0]", 0, 0, 0), Kind::kLimit,
       "overflows 64 bits"},
      {"one offset", raw("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}"), inv, "found 1 of them"},
      {"three offsets", raw("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}"), inv,
       "more than two"},
      {"negative offset", raw("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}"), inv, "found -8"},
      {"offsets backwards", one("F32", "[2]", 8, 0, 8), inv, "before its start 8"},
      {"size disagrees", one("F32", "[3]", 0, 8, 8), inv, "needs 12 bytes but its data_offsets span 8"},
      {"size of other dtype", one("F16", "[2]", 0, 8, 8), inv, "needs 4 bytes"},
      {"past the end", one("F32", "[2]", 0, 8, 4), inv, "the download is incomplete"},
      {"bytes after", one("F32", "[2]", 0, 8, 9), inv, "1 bytes belong to no tensor"},
      {"data without tensors", safetensors_bytes("{}", 4), inv, "belong to no tensor"},
      {"hole first", one("F32", "[2]", 4, 12, 12), inv, "4 bytes belong to no tensor"},
      {"hole", safetensors_bytes("{" + a + "," + tensor_json("b", "F32", "[2]", 12, 20) + "}", 20), inv,
       "4 bytes belong to no tensor"},
      {"overlap", safetensors_bytes("{" + a + "," + tensor_json("b", "F32", "[2]", 4, 12) + "}", 12), inv,
       "they overlap"},
      {"same bytes", safetensors_bytes("{" + a + "," + tensor_json("b", "F32", "[2]", 0, 8) + "}", 8), inv,
       "they overlap"},
      {"name twice", safetensors_bytes("{" + a + "," + tensor_json("a", "F32", "[2]", 8, 16) + "}", 16), inv,
       "tensor 'a' is given twice"},
      {"metadata number", safetensors_bytes("{\"__metadata__\":{\"k\":1}}", 0), inv,
       "metadata value of 'k' must be a string"},
      {"metadata list", safetensors_bytes("{\"__metadata__\":[]}", 0), inv, "must be an object"},
      {"metadata twice", safetensors_bytes("{\"__metadata__\":{},\"__metadata__\":{}}", 0), inv,
       "given twice"},
      {"metadata key twice", safetensors_bytes("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0), inv,
       "'k' is given twice"},
  };
}

TEST(Safetensors, EveryBrokenRuleIsAnErrorWithAPlace) {
  for (const auto& broken : broken_files()) {
    const auto result = parse_bytes(broken.bytes);
    ASSERT_FALSE(result.ok()) << broken.what;
    const std::string text = result.error().text();
    EXPECT_TRUE(text.starts_with("x.safetensors: ")) << broken.what << ": " << text;
    EXPECT_NE(text.find(broken.message), text.npos) << broken.what << ": " << text;
    EXPECT_EQ(result.error().kind, broken.kind) << broken.what << ": " << text;
    EXPECT_LT(text.size(), 500u) << broken.what;
  }
}

TEST(Safetensors, ReadsEveryDType) {
  const std::vector<std::pair<std::string, DType>> types = {
      {"F64", DType::kF64}, {"F32", DType::kF32},   {"F16", DType::kF16},        {"BF16", DType::kBF16},
      {"I64", DType::kI64}, {"I32", DType::kI32},   {"I16", DType::kI16},        {"I8", DType::kI8},
      {"U8", DType::kU8},   {"BOOL", DType::kBool}, {"F8_E4M3", DType::kF8_E4M3}};
  for (const auto& [name, type] : types) {
    const size_t bytes = 6 * size_of(type);
    const auto file = parse_bytes(one(name, "[2,3]", 0, bytes, bytes));
    ASSERT_TRUE(file.ok()) << file.error().text();
    EXPECT_EQ((*file)->entry("w")->dtype, type);
    EXPECT_EQ((*file)->tensor("w")->shape(), (Shape{2, 3}));
  }
}

TEST(Safetensors, AcceptsEverythingTheFormatAllows) {
  EXPECT_TRUE(parse_bytes(safetensors_bytes("{}", 0)).ok());
  EXPECT_TRUE(parse_bytes(safetensors_bytes("{}      ", 0)).ok());
  EXPECT_TRUE(parse_bytes(safetensors_bytes("{" + tensor_json("scalar", "F32", "[]", 0, 4) + "}", 4)).ok());
  // Empty tensors may lie anywhere between others, entries may come in any order.
  const auto file = parse_bytes(safetensors_bytes("{" + tensor_json("b", "F32", "[2]", 8, 16) + "," +
                                                      tensor_json("none", "F32", "[0,7]", 8, 8) + "," +
                                                      tensor_json("a", "F32", "[2]", 0, 8) + "}",
                                                  16));
  ASSERT_TRUE(file.ok()) << file.error().text();
  EXPECT_EQ((*file)->names(), (std::vector<std::string>{"b", "none", "a"}));
  EXPECT_EQ((*file)->tensor("none")->count(), 0);
}

TEST(Safetensors, MisalignedDataIsCopied) {
  for (int pad = 0; pad < 8; ++pad) {
    const auto file = parse_bytes(
        safetensors_bytes("{" + tensor_json("w", "I64", "[2]", 0, 16) + "}" + std::string(pad, ' '), 16));
    ASSERT_TRUE(file.ok());
    const Tensor t = *(*file)->tensor("w");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 8, 0u);
    EXPECT_EQ(t.i64()[0], 0x0706050403020100);
    EXPECT_EQ(t.i64()[1], 0x0f0e0d0c0b0a0908);
  }
}

TEST(Safetensors, ViewsOutliveTheFile) {
  ScratchFolder folder;
  const NamedTensor w{"w", Tensor::from({3}, std::vector<float>{1, 2, 3})};
  ASSERT_TRUE(write_safetensors(folder / "m.safetensors", std::span(&w, 1)).ok());
  Tensor t;
  {
    const auto file = Safetensors::open(folder / "m.safetensors");
    ASSERT_TRUE(file.ok()) << file.error().text();
    t = *(*file)->tensor("w");
  }
  std::filesystem::remove(folder / "m.safetensors");
  EXPECT_EQ(t.f32()[2], 3.0f);
}

TEST(Safetensors, AnUnknownNameSuggestsTheNearestOne) {
  const auto file = parse_bytes(one("F32", "[2]", 0, 8, 8));
  const auto missing = (*file)->tensor("wx");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, Kind::kNotFound);
  EXPECT_NE(missing.error().text().find("did you mean 'w'"), std::string::npos);
}

TEST(Safetensors, ErrorsEscapeAndShortenHostileNames) {
  const auto file = parse_bytes(safetensors_bytes("{\"\\u001b[31m" + std::string(5000, 'x') + "\":3}", 0));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().text().find('\x1b'), std::string::npos);
  EXPECT_LT(file.error().text().size(), 300u);
}

TEST(Safetensors, AMissingFileAndAFolderAreErrors) {
  ScratchFolder folder;
  EXPECT_EQ(Safetensors::open(folder / "none").error().kind, Kind::kNotFound);
  EXPECT_FALSE(Safetensors::open(folder.path()).ok());
}

TEST(Safetensors, OpensTenThousandTensorsQuickly) {
  std::string header = "{";
  for (int i = 0; i < 10000; ++i)
    header += (i ? "," : "") + tensor_json(fmt::format("model.layers.{}.self_attn.q_proj.weight", i), "F32",
                                           "[1,1]", 4 * i, 4 * i + 4);
  const std::string bytes = safetensors_bytes(header + "}", 40000);
  double best = 1e9;  // the best of five, so that other load does not fail the test
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto file = parse_bytes(bytes);
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(file.ok()) << file.error().text();
    EXPECT_EQ((*file)->names().size(), 10000u);
    best = std::min(best, elapsed.count());
  }
  RecordProperty("milliseconds", std::to_string(best));
#ifdef NDEBUG               // 13 ms in a release build; sanitizers take six times as long
  EXPECT_LT(best, 1000.0);  // the target is 100 ms; a busy machine may take longer
#endif
}

}  // namespace
}  // namespace makar
