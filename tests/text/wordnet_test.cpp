// Synonyms from a database in memory, and from the installed one.
#include "text/wordnet.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace makar {
namespace {

using Synonyms = std::vector<std::string>;

TEST(WordNet, ReadsIndexDataAndExceptions) {
  const std::string data =
      "  header\n00000009 05 n 03 dog 0 Hound(p) 1 domestic_dog 0 000 | an animal\n"
      "00000074 05 n 02 man 0 adult 0 000 | a person\n";
  ASSERT_EQ(data.find("00000074"), 74u);
  const std::string index =
      "  header\ncat n 1 0 1 0 99999999\ndog n 1 2 @ ~ 1 1 00000009\nman n 2 0 2 2 00000074 00000009\n";
  const std::string exceptions = "geese goose\nhounds dog\n";
  const WordNet w({WordNetFiles{index, data, exceptions}, {}, {}, {}});
  EXPECT_EQ(w.synonyms("dog"), (Synonyms{"dog", "Hound"}));
  EXPECT_EQ(w.synonyms("dogs"), (Synonyms{"dog", "Hound"}));
  EXPECT_EQ(w.synonyms("hounds"), (Synonyms{"dog", "Hound"}));
  EXPECT_EQ(w.synonyms("men"), (Synonyms{"man", "adult", "dog", "Hound"}));
  EXPECT_EQ(w.synonyms("dogsss"), (Synonyms{"dog", "Hound"}));  // the rules apply until a form has an entry
  EXPECT_TRUE(w.synonyms("cat").empty());                       // an offset beyond the file
  EXPECT_TRUE(w.synonyms("geese").empty());
  EXPECT_TRUE(w.synonyms(std::string(100000, 's')).empty());
}

TEST(WordNet, AMissingDatabaseNamesThePackage) {
  const auto w = WordNet::open("/nowhere");
  ASSERT_FALSE(w.ok());
  EXPECT_NE(w.error().text().find("wordnet-base"), std::string::npos);
}

TEST(WordNet, TheInstalledDatabaseHasSynonyms) {
  const auto w = WordNet::open();
  if (!w.ok()) GTEST_SKIP() << w.error().text();
  const auto has = [&](const char* word, const char* synonym) {
    const Synonyms all = (*w)->synonyms(word);
    return std::find(all.begin(), all.end(), synonym) != all.end();
  };
  EXPECT_TRUE(has("car", "automobile"));
  EXPECT_TRUE(has("cars", "automobile"));
  EXPECT_TRUE(has("bought", "buy"));
  EXPECT_TRUE(has("better", "good"));
  EXPECT_FALSE(has("car", "dog"));
}

}  // namespace
}  // namespace makar
