// Names of repositories and the hub's lists of files: both are untrusted input.
#include "hub/repository.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

TEST(HubSource, ReadsNamesAndUrls) {
  const auto plain = parse_source("owner/name", false);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->repository, "owner/name");
  EXPECT_EQ(plain->revision, "main");
  const auto full = parse_source("owner/name@v1:Q4_K_M", false);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->revision, "v1");
  EXPECT_EQ(full->variant, "Q4_K_M");
  const auto page = parse_source("https://hub.example/owner/name/tree/dev", false);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->endpoint, "https://hub.example");
  EXPECT_EQ(page->repository + "@" + page->revision, "owner/name@dev");
  const auto file =
      parse_source("https://hub.example/owner/name/resolve/main/sub/a.json?download=true", false);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->file, "sub/a.json");
  const auto data = parse_source("https://hub.example/datasets/owner/name", false);
  ASSERT_TRUE(data.ok());
  EXPECT_TRUE(data->dataset);
  EXPECT_EQ(data->repository, "owner/name");
  const auto other = parse_source("https://example.org/a/b/c/model.gguf", false);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->url, "https://example.org/a/b/c/model.gguf");
  EXPECT_TRUE(other->repository.empty());
  EXPECT_FALSE(parse_source("https://example.org/model.gguf", false)->url.empty());
}

TEST(HubSource, RefusesInvalidNames) {
  for (const char* text : {"", "/", "a/b/c", "../x", "a/..", "a b/c", "owner/name@", "owner/name@../x",
                           "file:///x", "https://hub.example/..", "https://hub.example/a/../tree/main",
                           "https://hub.example/resolve/main/x", "https://hub.example/a/b/resolve/../x"})
    EXPECT_FALSE(parse_source(text, false).ok()) << text;
}

TEST(HubListing, RefusesPathsThatLeaveTheFolder) {
  for (const char* path : {"../x", "/x", "a/../../x", "a\\\\b", "", "a\\u0000b"}) {
    const std::string json = std::string(R"({"siblings": [{"rfilename": ")") + path + "\"}]}";
    EXPECT_FALSE(parse_listing(json, "test").ok()) << json;
  }
  EXPECT_FALSE(parse_listing("[]", "test").ok());
  EXPECT_FALSE(parse_listing(R"({"siblings": 1})", "test").ok());
  const auto fine =
      parse_listing(R"({"sha": "abc", "siblings": [{"rfilename": "a/b.json", "size": 3}]})", "test");
  ASSERT_TRUE(fine.ok());
  EXPECT_EQ(fine->files[0].size, 3u);
}

TEST(HubListing, ChoosesSafetensorsBeforeGguf) {
  HubListing all;
  for (const char* path :
       {"config.json", "model.safetensors", "model-q4_k_m.gguf", "pytorch_model.bin", "logo.png"})
    all.files.push_back({path, 1, "", ""});
  HubSource source;
  source.repository = "owner/name";
  const auto names = [&] {
    std::string out;
    const auto chosen = choose_files(all, source);
    for (const HubFile& f : *chosen) out += f.path + " ";
    return out;
  };
  EXPECT_EQ(names(), "config.json model.safetensors ");
  source.variant = "Q4_K_M";
  EXPECT_EQ(names(), "config.json model-q4_k_m.gguf ");
  source.variant.clear(), source.dataset = true;
  EXPECT_EQ(choose_files(all, source)->size(), all.files.size());
}

}  // namespace
}  // namespace makar
