#include "base/file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "scratch_folder.h"

namespace makar {
namespace {

TEST(MappedFile, ReleasedPagesAreReadAgain) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i);
  const std::string path = folder.path() + "/file";
  ASSERT_TRUE(write_file(path, text).ok());
  const auto map = MappedFile::open(path);
  ASSERT_TRUE(map.ok());
  const auto bytes = (*map)->bytes();
  const auto same = [&] { return std::memcmp(bytes.data(), text.data(), text.size()) == 0; };
  EXPECT_TRUE(same());
  MappedFile::release_pages(bytes.subspan(1, 1));
  MappedFile::release_pages(bytes.subspan(5000, 100000));
  EXPECT_TRUE(same());
  MappedFile::release_pages(bytes);
  EXPECT_TRUE(same());
}

// Released pages of ordinary memory would read as zeros.
TEST(MappedFile, OnlyPagesOfMappedFilesAreReleased) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/file";
  ASSERT_TRUE(write_file(path, std::string(100000, 'm')).ok());
  const auto map = MappedFile::open(path);
  ASSERT_TRUE(map.ok());
  std::vector<std::byte> memory(size_t{1} << 24, std::byte{7});
  MappedFile::release_pages(memory);
  for (const std::byte b : memory) ASSERT_EQ(b, std::byte{7});
}

}  // namespace
}  // namespace makar
