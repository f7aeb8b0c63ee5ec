// Word senses: vectors of words compared with the layers of the model, rankings computed by hand.
#include "llm/senses.h"

#include <cmath>

#include "language_model_fixture.h"

namespace makar {
namespace {

TEST(FindWord, FindsWholeWordsInAnyCase) {
  const auto at = [](const std::string& text, const std::string& word) {
    const auto found = find_word(text, word);
    return found.ok() ? static_cast<int64_t>(found->begin) : -1;
  };
  EXPECT_EQ(at("banks of a bank", "bank"), 11);
  EXPECT_EQ(at("The Bank.", "bank"), 4);
  EXPECT_EQ(at("bank", "bank"), 0);
  EXPECT_EQ(at("embankment", "bank"), -1);
  EXPECT_EQ(at("caf\xC3\xA9 caf", "caf"), 6);
  EXPECT_EQ(at("", "bank"), -1);
  EXPECT_EQ(at("bank", ""), -1);
}

TEST(SenseInventory, RanksByTheNearestExampleOrTheMean) {
  SenseInventory nearest(false), mean(true);
  for (SenseInventory* inventory : {&nearest, &mean}) {
    inventory->add("bank", "river", {1, 0});
    inventory->add("bank", "river", {0, 1});
    inventory->add("bank", "money", {0.6F, 0.8F});
  }
  const std::vector<float> word = {0.8F, 0.6F};
  const auto by_example = nearest.rank("bank", word), by_mean = mean.rank("bank", word);
  ASSERT_TRUE(by_example.ok() && by_mean.ok());
  EXPECT_EQ((*by_example)[0].sense, "money");  // cosine 0.96; river has 0.8 and 0.6
  EXPECT_NEAR((*by_example)[0].cosine, 0.96, 1e-6);
  EXPECT_NEAR((*by_example)[1].cosine, 0.8, 1e-6);
  EXPECT_EQ((*by_mean)[0].sense, "river");  // its mean is on the diagonal
  EXPECT_NEAR((*by_mean)[0].cosine, 1.4 / std::sqrt(2), 1e-6);
  EXPECT_EQ(*nearest.most_frequent("bank"), "river");
  const auto unknown = nearest.rank("bnak", word);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().text().find("did you mean 'bank'"), std::string::npos) << unknown.error().text();
}

class WordSenses : public LanguageModelTest {};

TEST_F(WordSenses, AVectorIsTheMeanOfTheLastLayersOverTheTokensOfAWord) {
  const LanguageModel language = open();
  const std::string text = "the bank by the river";
  Context ctx{device_};
  Record record;
  record.hidden = true;
  ForwardContext f{ctx, nullptr, &record};
  Inputs inputs;
  inputs.source.add(std::vector<int64_t>(text.begin(), text.end()));  // a byte is a token
  language.model().hidden(f, inputs);
  const size_t count = record.hidden_states.size();
  for (const int64_t layers : {1, 2, 4, 100}) {
    const auto encoder = WordEncoder::make(language, device_, layers);
    ASSERT_TRUE(encoder.ok());
    const auto vector = (*encoder)({text, 4, 8});
    ASSERT_TRUE(vector.ok()) << vector.error().text();
    const size_t used = std::min(static_cast<size_t>(layers), count - 1);  // the first is the input
    std::vector<double> expected(vector->size(), 0);
    for (size_t l = count - used; l < count; ++l) {
      const Tensor states = record.hidden_states[l].host();
      for (size_t row = 4; row < 8; ++row)
        for (size_t i = 0; i < expected.size(); ++i)
          expected[i] += static_cast<double>(states.f32()[row * expected.size() + i]);
    }
    double norm = 0;
    for (const double v : expected) norm += v * v;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR((*vector)[i], expected[i] / std::sqrt(norm), 1e-6) << layers << " " << i;
  }
  EXPECT_FALSE(WordEncoder::make(language, device_, 0).ok());
  const auto encoder = WordEncoder::make(language, device_);
  EXPECT_FALSE(
      (*encoder)({std::string(100000, 'x') + " bank", 100001, 100005}).ok());  // beyond the model's limit
}

}  // namespace
}  // namespace makar
