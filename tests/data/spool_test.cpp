#include "data/spool.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "scratch_folder.h"

namespace makar {
namespace {

struct Item {
  int64_t number = 0;
  float share = 0;
  std::string text;
  std::vector<int64_t> ids;
  std::vector<std::string> words;
  static constexpr auto fields() {
    return std::tuple(&Item::number, &Item::share, &Item::text, &Item::ids, &Item::words);
  }
};

Item item(size_t i) {
  Item out{static_cast<int64_t>(i) - 5, 0.25f * static_cast<float>(i), std::string(i % 7, 'x'), {}, {}};
  for (size_t k = 0; k < i % 50; ++k) out.ids.push_back(static_cast<int64_t>(i * k));
  for (size_t k = 0; k < i % 3; ++k) out.words.push_back(std::string(k * 1000, static_cast<char>('a' + k)));
  return out;
}

void expect_same(const SpoolOf<Item>& list, size_t at) {
  const auto got = list.read(at);
  ASSERT_TRUE(got.ok()) << got.error().message;
  const Item expected = item(at);
  EXPECT_EQ(got->number, expected.number);
  EXPECT_EQ(got->share, expected.share);
  EXPECT_EQ(got->text, expected.text);
  EXPECT_EQ(got->ids, expected.ids);
  EXPECT_EQ(got->words, expected.words);
}

TEST(Spool, ReadsRecordsByIndexWhileItGrows) {
  ScratchFolder folder;
  SpoolOf<Item> list(folder.path() + "/deep/inside");
  EXPECT_TRUE(list.empty());
  constexpr size_t kCount = 5000;  // several buffers
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(list.add(item(i)).ok());
    if (i % 701 == 0) expect_same(list, i / 2);
  }
  EXPECT_EQ(list.size(), kCount);
  for (size_t i = 0; i < kCount; i += 13) expect_same(list, (i * 7919) % kCount);
  expect_same(list, 0), expect_same(list, kCount - 1);
}

TEST(Spool, LeavesNoFileBehind) {
  ScratchFolder folder;
  Spool list(folder.path());
  ASSERT_TRUE(list.add("bytes").ok());
  EXPECT_EQ(*list.read(0), "bytes");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Spool, ErrorsNameTheFolder) {
  Spool list("/proc/nowhere");
  const Status s = list.add("bytes");
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().place.find("/proc/nowhere"), std::string::npos);
}

}  // namespace
}  // namespace makar
