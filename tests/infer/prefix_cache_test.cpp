// The prefix cache by itself: which pages it finds, which it evicts, and that every page is freed.
#include "infer/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "models/subjects.h"

namespace makar {
namespace {

constexpr int64_t kRows = KvCache::kPageRows;

class PrefixCacheTest : public testing::Test {
 protected:
  // Tokens of `pages` whole pages and `rest` more; `seed` makes the pages from `first_distinct` on
  // distinct.
  static std::vector<int64_t> tokens(int64_t pages, int64_t rest = 0, int64_t first_distinct = 0,
                                     int64_t seed = 0) {
    std::vector<int64_t> out(static_cast<size_t>(pages * kRows + rest));
    std::iota(out.begin(), out.end(), 0);
    for (size_t i = static_cast<size_t>(first_distinct * kRows); i < out.size(); ++i)
      out[i] += 1000000 * seed;
    return out;
  }
  // A sequence with pages for the tokens, as the engine computes it.
  size_t compute(const std::vector<int64_t>& ids) {
    const size_t slot = cache_.add();
    EXPECT_TRUE(cache_.grow(slot, static_cast<int64_t>(ids.size())));
    return slot;
  }
  // Adds a computed sequence to the prefixes and releases it; returns its pages.
  std::vector<KvCache::Page> add_and_release(const std::vector<int64_t>& ids, const std::string& salt = "") {
    const size_t slot = compute(ids);
    const std::vector<KvCache::Page> pages = cache_.pages(slot);
    prefixes_->add(salt, ids, pages);
    cache_.release(slot);
    return pages;
  }

  const LoadedModel loaded_ = subject("small/llama");
  KvCache cache_{*loaded_.model->spec().decoder};
  std::optional<PrefixCache> prefixes_{std::in_place, cache_};
};

TEST_F(PrefixCacheTest, FindsTheLongestPrefixOfWholePages) {
  const auto pages = add_and_release(tokens(3, 5));
  EXPECT_EQ(prefixes_->pages(), 3);  // the partial fourth page is not kept
  EXPECT_EQ(cache_.pages_used(), 3);
  using Pages = std::vector<KvCache::Page>;
  EXPECT_EQ(prefixes_->find("", tokens(3, 5)), Pages(pages.begin(), pages.begin() + 3));
  EXPECT_EQ(prefixes_->find("", tokens(2, kRows - 1)), Pages(pages.begin(), pages.begin() + 2));
  EXPECT_EQ(prefixes_->find("", tokens(3, 0, 1, 7)), Pages(pages.begin(), pages.begin() + 1));
  EXPECT_TRUE(prefixes_->find("", tokens(3, 0, 0, 7)).empty());
  EXPECT_TRUE(prefixes_->find("", tokens(0, kRows - 1)).empty());
}

TEST_F(PrefixCacheTest, ComparesEveryTokenOfAPage) {
  add_and_release(tokens(1));
  for (const size_t at : {size_t{0}, static_cast<size_t>(kRows) / 2, static_cast<size_t>(kRows) - 1}) {
    auto other = tokens(1);
    other[at] += 1;
    EXPECT_TRUE(prefixes_->find("", other).empty()) << at;
  }
}

TEST_F(PrefixCacheTest, SaltsShareNothing) {
  const auto pages_a = add_and_release(tokens(2), "a");
  EXPECT_TRUE(prefixes_->find("b", tokens(2)).empty());
  EXPECT_TRUE(prefixes_->find("", tokens(2)).empty());
  const auto pages_b = add_and_release(tokens(2), "b");
  EXPECT_NE(prefixes_->find("a", tokens(2)), prefixes_->find("b", tokens(2)));
  EXPECT_EQ(prefixes_->find("a", tokens(2)), pages_a);
  EXPECT_EQ(prefixes_->find("b", tokens(2)), pages_b);
}

TEST_F(PrefixCacheTest, KeepsTheFirstPagesOfEqualPrefixes) {
  const auto first_pages = add_and_release(tokens(2));
  add_and_release(tokens(2));
  EXPECT_EQ(prefixes_->find("", tokens(2)), first_pages);
  EXPECT_EQ(prefixes_->pages(), 2);
  EXPECT_EQ(cache_.pages_used(), 2);
  const auto longer_pages = add_and_release(tokens(3));  // only its last page is new
  EXPECT_EQ(prefixes_->find("", tokens(3)), (std::vector{first_pages[0], first_pages[1], longer_pages[2]}));
  EXPECT_EQ(cache_.pages_used(), 3);
}

TEST_F(PrefixCacheTest, EvictsTheLeastRecentlyUsedLeafFirst) {
  add_and_release(tokens(2));
  add_and_release(tokens(2, 0, 1, 7));  // shares its first page with the other
  ASSERT_EQ(prefixes_->pages(), 3);
  EXPECT_EQ(prefixes_->find("", tokens(2)).size(), 2u);  // now the second sequence is the older one
  ASSERT_TRUE(prefixes_->evict());
  EXPECT_EQ(prefixes_->find("", tokens(2, 0, 1, 7)).size(), 1u);
  EXPECT_EQ(prefixes_->find("", tokens(2)).size(), 2u);
  ASSERT_TRUE(prefixes_->evict());  // the other leaf, although its parent is as old
  EXPECT_EQ(prefixes_->find("", tokens(2)).size(), 1u);
  ASSERT_TRUE(prefixes_->evict());
  EXPECT_FALSE(prefixes_->evict());
  EXPECT_EQ(cache_.pages_used(), 0);
}

TEST_F(PrefixCacheTest, DoesNotEvictPagesInUse) {
  add_and_release(tokens(2));
  const size_t slot = cache_.adopt(prefixes_->find("", tokens(1)));
  ASSERT_TRUE(prefixes_->evict());   // the second page
  EXPECT_FALSE(prefixes_->evict());  // a sequence uses the first
  EXPECT_EQ(prefixes_->find("", tokens(1)).size(), 1u);
  cache_.release(slot);
  EXPECT_TRUE(prefixes_->evict());
  EXPECT_EQ(cache_.references(), 0);
}

// A sliding window releases pages in the middle of a sequence, whose later pages are still in use.
TEST_F(PrefixCacheTest, EvictsAFreePageWithItsDescendants) {
  const size_t slot = compute(tokens(3));
  prefixes_->add("", tokens(3), cache_.pages(slot));
  cache_.evict(slot, 0, kRows);  // the first page leaves the window
  ASSERT_TRUE(prefixes_->evict());
  EXPECT_EQ(prefixes_->pages(), 0);
  EXPECT_TRUE(prefixes_->find("", tokens(3)).empty());
  EXPECT_EQ(cache_.pages_used(), 2);                  // the other two pages of the sequence
  prefixes_->add("", tokens(3), cache_.pages(slot));  // its first page is gone: nothing can be found
  EXPECT_EQ(prefixes_->pages(), 0);
  cache_.release(slot);
  EXPECT_EQ(cache_.pages_used(), 0);
}

TEST_F(PrefixCacheTest, FreesAllPagesAtTheEnd) {
  add_and_release(tokens(4), "a");
  add_and_release(tokens(2), "b");
  EXPECT_EQ(cache_.references(), 6);
  prefixes_->clear();
  EXPECT_EQ(cache_.references(), 0);
  EXPECT_TRUE(prefixes_->find("a", tokens(4)).empty());
  add_and_release(tokens(1), "a");
  prefixes_.reset();
  EXPECT_EQ(cache_.references(), 0);
}

}  // namespace
}  // namespace makar
