// Broken GGUF files: each is an error that names the file and the place in it.
#include <gtest/gtest.h>

#include "formats/gguf_bytes.h"

namespace makar {
namespace {

struct Broken {
  std::string name;
  std::string bytes;
  std::vector<std::string> expected;  // substrings of the message
};

template <class F>
Broken broken_file(const std::string& name, std::vector<std::string> expected, F&& change) {
  GgufParts parts;
  change(parts);
  return {name, parts.join(), std::move(expected)};
}
Broken pair(const std::string& name, const std::string& bytes, std::vector<std::string> expected) {
  return broken_file(name, std::move(expected), [&](GgufParts& p) { p.pairs[1] = bytes; });
}
Broken info(const std::string& name, const std::string& bytes, std::vector<std::string> expected) {
  return broken_file(name, std::move(expected), [&](GgufParts& p) { p.infos[1] = bytes; });
}

std::vector<Broken> headers() {
  const std::string valid = GgufParts().join();
  std::vector<Broken> out = {
      {"nothing", "", {"byte 0", "not a GGUF file"}},
      {"one byte", "G", {"byte 0", "not a GGUF file"}},
      {"only the magic", "GGUF", {"byte 4", "truncated"}},
      {"a web page", "<!doctype html><html>", {"web page"}},
      {"a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\n", {"git lfs pull"}},
      {"a zip", "PK\x03\x04zzzzzzzzzzzzzzzzzzzzz", {"not a GGUF file", "PK"}},
      {"safetensors", std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}", 16), {"not a GGUF file"}},
      broken_file("the older GGML", {"not a GGUF file"}, [](GgufParts& p) { p.magic = "ggml"; }),
      broken_file("lower case", {"not a GGUF file"}, [](GgufParts& p) { p.magic = "gguf"; }),
      broken_file("version 0", {"byte 4", "version 0"}, [](GgufParts& p) { p.version = le<uint32_t>(0); }),
      broken_file("version 1", {"byte 4", "version 1"}, [](GgufParts& p) { p.version = le<uint32_t>(1); }),
      broken_file("version 4", {"byte 4", "version 4"}, [](GgufParts& p) { p.version = le<uint32_t>(4); }),
      broken_file("big-endian", {"byte 4", "big-endian"},
                  [](GgufParts& p) { p.version = le<uint32_t>(3u << 24); }),
      broken_file("2^62 tensors", {"byte 8", "the limit is"},
                  [](GgufParts& p) { p.tensor_count = int64_t{1} << 62; }),
      broken_file("2^40 keys", {"byte 16", "the limit is"},
                  [](GgufParts& p) { p.pair_count = int64_t{1} << 40; }),
      broken_file("a million tensors declared", {"x.gguf"}, [](GgufParts& p) { p.tensor_count = 1 << 20; }),
      broken_file("three keys declared, two present", {"x.gguf"}, [](GgufParts& p) { p.pair_count = 3; }),
      broken_file("one key declared, two present", {"x.gguf"}, [](GgufParts& p) { p.pair_count = 1; }),
      broken_file("three tensors declared, two present", {"x.gguf"},
                  [](GgufParts& p) { p.tensor_count = 3; }),
  };
  // Truncated at every byte of the header, and inside the tables and the data.
  for (size_t at = 5; at < 24; ++at)
    out.push_back({fmt::format("cut off at byte {}", at), valid.substr(0, at), {"truncated"}});
  for (const size_t at : {30, 50, 60, 80, 100, 120, 140, 160})
    out.push_back({fmt::format("cut off at byte {}", at), valid.substr(0, at), {"x.gguf"}});
  out.push_back(
      {"the last byte is missing", valid.substr(0, valid.size() - 1), {"tensor 'b'", "incomplete"}});
  out.push_back({"no data", valid.substr(0, valid.size() - 108), {"tensor 'a'", "incomplete"}});
  return out;
}

std::vector<Broken> values() {
  const auto array = [](uint32_t kind, uint64_t count) { return le(kind) + le(count); };
  std::string deep;
  for (int i = 0; i < 10; ++i) deep += array(9, 1);
  std::vector<Broken> out = {
      pair("an empty key", gguf_pair("", 4, le<uint32_t>(1)), {"key is empty"}),
      pair("a key of 2^60 bytes", le<uint64_t>(uint64_t{1} << 60), {"a key of"}),
      pair("a key of 65537 bytes", gguf_pair(std::string(65537, 'k'), 4, le<uint32_t>(1)),
           {"a key of 65537 bytes"}),
      pair("a key twice", gguf_pair("general.architecture", 4, le<uint32_t>(1)),
           {"general.architecture", "twice"}),
      pair("kind 13", gguf_pair("k", 13, le<uint64_t>(0)), {"key 'k'", "kind 13"}),
      pair("kind 2^32 - 1", gguf_pair("k", UINT32_MAX, ""), {"key 'k'", "kind 4294967295"}),
      pair("a string of 2^63 bytes", gguf_pair("k", 8, le<uint64_t>(uint64_t{1} << 63)),
           {"key 'k'", "truncated"}),
      pair("a string of 2^64 - 1 bytes", gguf_pair("k", 8, le<uint64_t>(UINT64_MAX)),
           {"key 'k'", "truncated"}),
      pair("a string beyond the file", gguf_pair("k", 8, le<uint64_t>(5000)), {"key 'k'", "5000"}),
      pair("an array of kind 13", gguf_pair("k", 9, array(13, 1)), {"key 'k'", "unknown kind 13"}),
      pair("an array of kind 99 without elements", gguf_pair("k", 9, array(99, 0)),
           {"key 'k'", "unknown kind 99"}),
      pair("arrays ten deep", gguf_pair("k", 9, deep), {"key 'k'", "nested"}),
      pair("arrays of strings beyond the file", gguf_pair("k", 9, array(8, 1u << 30)), {"key 'k'", "string"}),
      pair("a string in an array beyond the file", gguf_pair("k", 9, array(8, 1) + le<uint64_t>(99999)),
           {"key 'k'", "99999"}),
      pair("alignment 0", gguf_pair("general.alignment", 4, le<uint32_t>(0)),
           {"general.alignment", "power of two"}),
      pair("alignment 3", gguf_pair("general.alignment", 4, le<uint32_t>(3)),
           {"general.alignment", "found 3"}),
      pair("alignment 2^31", gguf_pair("general.alignment", 4, le<uint32_t>(1u << 31)),
           {"general.alignment"}),
      pair("negative alignment", gguf_pair("general.alignment", 5, le<int32_t>(-32)),
           {"general.alignment", "-32"}),
      pair("alignment as text", gguf_pair("general.alignment", 8, gguf_string("32")),
           {"general.alignment", "'32'"}),
      pair("alignment as an array", gguf_pair("general.alignment", 9, array(4, 0)),
           {"general.alignment", "0 of u32"}),
      pair("alignment as f32", gguf_pair("general.alignment", 6, le(32.0f)), {"general.alignment"}),
  };
  for (uint32_t kind = 0; kind < 13; ++kind)
    if (kind != 9)
      out.push_back(pair(fmt::format("2^61 values of kind {}", kind),
                         gguf_pair("k", 9, array(kind, uint64_t{1} << 61)),
                         {"key 'k'", "2305843009213693952"}));
  return out;
}

std::vector<Broken> tensors() {
  std::vector<Broken> out = {
      info("an empty name", gguf_info("", {3}, 0, 96), {"name of a tensor is empty"}),
      info("a name of 2^40 bytes", le<uint64_t>(uint64_t{1} << 40), {"name of a tensor"}),
      info("a name twice", gguf_info("a", {3}, 0, 96), {"tensor 'a'", "twice"}),
      info("no dimensions", gguf_info("b", {}, 0, 96), {"tensor 'b'", "0 dimensions"}),
      info("five dimensions", gguf_info("b", {1, 1, 1, 1, 3}, 0, 96), {"tensor 'b'", "5 dimensions"}),
      info("2^32 - 1 dimensions", gguf_string("b") + le<uint32_t>(UINT32_MAX),
           {"tensor 'b'", "4294967295 dimensions"}),
      info("an empty dimension", gguf_info("b", {3, 0}, 0, 96), {"tensor 'b'", "empty dimension"}),
      info("a dimension of 2^63", gguf_info("b", {uint64_t{1} << 63}, 0, 96), {"tensor 'b'", "2^46"}),
      info("a dimension of 2^64 - 1", gguf_info("b", {UINT64_MAX}, 0, 96), {"tensor 'b'", "2^46"}),
      info("a product that wraps around", gguf_info("b", {1ull << 32, 1ull << 32, 3}, 0, 96),
           {"tensor 'b'", "2^46"}),
      info("more than the file", gguf_info("b", {1000}, 0, 96),
           {"tensor 'b'", "spans bytes 96..4096", "108"}),
      info("an offset off the alignment", gguf_info("b", {3}, 0, 97), {"tensor 'b'", "alignment 32"}),
      info("an offset beyond the file", gguf_info("b", {3}, 0, 1 << 20), {"tensor 'b'", "incomplete"}),
      info("an offset of 2^64 - 32", gguf_info("b", {3}, 0, UINT64_MAX - 31), {"tensor 'b'"}),
      info("an overlap", gguf_info("b", {3}, 0, 64), {"overlaps", "'a'"}),
      info("the same offset", gguf_info("b", {3}, 0, 0), {"overlaps"}),
      info("half a block", gguf_info("b", {16}, 8, 96), {"tensor 'b'", "rows of 16", "q8_0"}),
      info("rows of half a super-block", gguf_info("b", {128, 2}, 12, 96),
           {"tensor 'b'", "rows of 128", "q4_k"}),
      info("cut off after the rank", gguf_string("b") + le<uint32_t>(2), {"tensor 'b'"}),
  };
  for (const uint32_t type : {4u, 5u, 9u, 15u, 31u, 100u, UINT32_MAX})  // removed, missing or not supported
    out.push_back(info(fmt::format("ggml type {}", type), gguf_info("b", {256}, type, 96),
                       {"tensor 'b'", fmt::format("ggml type {}", type)}));
  return out;
}

TEST(GgufBroken, EveryBrokenFileIsAnErrorWithItsPlace) {
  size_t count = 0;
  for (const auto& list : {headers(), values(), tensors()})
    for (const Broken& one : list) {
      ++count;
      const auto file = parse_gguf(one.bytes);
      ASSERT_FALSE(file.ok()) << one.name;
      const std::string text = file.error().text();
      EXPECT_TRUE(text.starts_with("x.gguf")) << one.name << ": " << text;
      EXPECT_LT(text.size(), 1000u) << one.name;
      for (const std::string& part : one.expected)
        EXPECT_NE(text.find(part), text.npos) << one.name << ": " << text;
    }
  EXPECT_GE(count, 100u);
}

}  // namespace
}  // namespace makar
