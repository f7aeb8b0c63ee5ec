// Files and batches of several owners: shares, turns, recovery after a killed process.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "scratch_folder.h"
#include "serve/files/batch_records.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

TEST(FileStore, OneOwnerCannotExhaustTheShareOfOthers) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/files";
  auto store = FileStore::open(folder, {.bytes = 1000, .files = 8, .all = 4000});
  ASSERT_TRUE(store.ok());
  const auto add = [&](const std::string& owner, size_t bytes) {
    const auto added = (*store)->add(owner, "name", "batch", std::string(bytes, 'x'));
    return added.ok() ? "" : added.error().message;
  };
  EXPECT_EQ(add("a", 10), "");
  EXPECT_EQ(add("a", 10), "");
  EXPECT_NE(add("a", 10), "") << "a quarter of the files";
  EXPECT_EQ(add("b", 600), "");
  EXPECT_NE(add("b", 600), "") << "a quarter of the bytes";
  EXPECT_EQ(add("b", 100), "");
  EXPECT_EQ(add("c", 900), "");
}

TEST(FileStore, WithoutKeysTheOwnerHasTheWholeLimit) {
  const ScratchFolder scratch;
  auto store = FileStore::open(scratch.path() + "/files", {.bytes = 1000, .files = 4, .all = 4000});
  ASSERT_TRUE(store.ok());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE((*store)->add("", "name", "batch", "x").ok()) << i;
  EXPECT_FALSE((*store)->add("", "name", "batch", "x").ok());
}

TEST(BatchRecords, RemoveRemainsOfAKilledProcess) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/files";
  std::string output;
  {
    auto store = FileStore::open(folder, {});
    const auto file = (*store)->add("a", "lines", "batch", "{}");
    ASSERT_TRUE(file.ok());
    BatchRecords records(**store);
    ASSERT_TRUE(records.create("a", {{"input_file_id", (*file)["id"]}, {"endpoint", "/v1/embeddings"}}).ok());
    output = records.next()->output_id;
    for (const std::string& name :
         {output + ".part", std::string("file-orphan.part"), std::string("file-1.data.tmp")})
      std::ofstream(folder + "/" + name) << "x";
  }
  auto store = FileStore::open(folder, {});
  ASSERT_TRUE(store.ok()) << store.error().text();
  const BatchRecords records(**store);
  EXPECT_TRUE(fs::exists(folder + "/" + output + ".part"));  // the batch continues with it
  EXPECT_FALSE(fs::exists(folder + "/file-orphan.part"));
  EXPECT_FALSE(fs::exists(folder + "/file-1.data.tmp"));
}

TEST(BatchRecords, OwnersTakeTurnsWithSeparateLimits) {
  const ScratchFolder scratch;
  auto store = FileStore::open(scratch.path() + "/files", {});
  BatchRecords records(**store);
  const auto create = [&](const std::string& owner) {
    const auto file = (*store)->add(owner, "lines", "batch", "{}");
    return file.ok() &&
           records.create(owner, {{"input_file_id", (*file)["id"]}, {"endpoint", "/v1/embeddings"}}).ok();
  };
  int made = 0;
  while (made < 1000 && create("a")) ++made;
  EXPECT_EQ(made, 100);
  EXPECT_TRUE(create("b"));
  EXPECT_TRUE(records.others_wait("a"));
  std::string order;
  for (int i = 0; i < 4; ++i) order += records.next()->owner;
  EXPECT_TRUE(order == "abab" || order == "baba") << order;
}

}  // namespace
}  // namespace makar
