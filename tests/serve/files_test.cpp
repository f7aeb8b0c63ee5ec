// Files and batches of several owners: shares, turns, answers on disk, and what a killed process leaves
// behind.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "scratch_folder.h"
#include "serve/files/batch_records.h"
#include "serve/files/batch_runner.h"

namespace {

std::mutex synced_mutex;
std::map<ino_t, off_t> synced;  // size of a file when it was last synced

}  // namespace

// Replaces the C library's function in this program: records what is on disk.
extern "C" int fsync(int fd) {
  struct stat file = {};
  const int code = static_cast<int>(syscall(SYS_fsync, fd));
  if (code == 0 && fstat(fd, &file) == 0) {
    const std::lock_guard lock(synced_mutex);
    synced[file.st_ino] = file.st_size;
  }
  return code;
}

namespace makar {
namespace {

namespace fs = std::filesystem;

// The lines of a file that are certainly on disk.
int64_t synced_lines(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return -1;
  const std::lock_guard lock(synced_mutex);
  std::string text(static_cast<size_t>(synced[file.st_ino]), ' ');
  std::ifstream(path).read(text.data(), static_cast<std::streamsize>(text.size()));
  return std::count(text.begin(), text.end(), '\n');
}

TEST(BatchRunner, CountsAnAnswerWhenItIsOnDisk) {
  const ScratchFolder scratch;
  auto store = FileStore::open(scratch.path() + "/files", {});
  ASSERT_TRUE(store.ok());
  constexpr int kLines = 6;
  std::string input;
  for (int i = 0; i < kLines; ++i)
    input += Json({{"custom_id", std::to_string(i)},
                   {"method", "POST"},
                   {"url", "/v1/embeddings"},
                   {"body", {{"input", "x"}}}})
                 .dump() +
             "\n";
  const auto file = (*store)->add("a", "lines", "batch", input);
  ASSERT_TRUE(file.ok());
  BatchRecords records(**store);
  const auto batch = records.create("a", {{"input_file_id", (*file)["id"]}, {"endpoint", "/v1/embeddings"}});
  ASSERT_TRUE(batch.ok()) << batch.error().text();
  const BatchRecord record = *records.next();
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpReply>> replies;
  BatchRunner runner(
      **store, records,
      [&](const BatchRecord&, const Json&, std::shared_ptr<HttpReply> reply) {
        const std::lock_guard lock(mutex);
        replies.push_back(std::move(reply));
      },
      kLines);
  const auto until = [](const auto& reached) {
    for (int i = 0; i < 60000 && !reached(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return reached();
  };
  ASSERT_TRUE(until([&] {
    const std::lock_guard lock(mutex);
    return replies.size() == kLines;
  }));
  const auto count = [&](const char* what) {
    return records.find("a", (*batch)["id"])->at("request_counts").at(what).get<int64_t>();
  };
  for (int i = 0; i < kLines - 1; ++i) {  // good and bad answers alternate, each kind in its own file
    const bool good = i % 2 == 0;
    replies[static_cast<size_t>(i)]->send({good ? 200 : 400, "{}"});
    const int64_t expected = i / 2 + 1;
    ASSERT_TRUE(until([&] { return count(good ? "completed" : "failed") == expected; }));
    EXPECT_EQ(synced_lines((*store)->part_path(good ? record.output_id : record.error_id)), expected) << i;
  }
  runner.stop();
}

TEST(FileStore, OneOwnerCannotExhaustTheShareOfOthers) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/files";
  auto store = FileStore::open(folder, {.bytes = 1000, .files = 8, .total_bytes = 4000});
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
  auto store = FileStore::open(scratch.path() + "/files", {.bytes = 1000, .files = 4, .total_bytes = 4000});
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
  int created = 0;
  while (created < 1000 && create("a")) ++created;
  EXPECT_EQ(created, 100);
  EXPECT_TRUE(create("b"));
  EXPECT_TRUE(records.others_unfinished("a"));
  std::string order;
  for (int i = 0; i < 4; ++i) order += records.next()->owner;
  EXPECT_TRUE(order == "abab" || order == "baba") << order;
}

}  // namespace
}  // namespace makar
