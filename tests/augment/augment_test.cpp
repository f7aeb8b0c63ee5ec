// The thirteen kinds of augmentation on the worked example "The cat sat on the mat.", rates, seeds, hostile
// texts.
#include "augment/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "augment/changes.h"
#include "augment/instructions.h"

using namespace makar;

namespace {

const std::string kCat = "The cat sat on the mat.";

AugmentResources resources() {
  AugmentResources r;
  r.synonyms = [](const std::string& w) -> std::vector<std::string> {
    if (w == "cat") return {"kitty", "cat"};
    if (w == "mat") return {"rug"};
    return {};
  };
  r.neighbors = [](const std::string& w) -> std::vector<std::string> {
    return w == "sat" ? std::vector<std::string>{"stood"} : std::vector<std::string>{};
  };
  r.masked = [](const std::string& before, const std::string& after) -> Result<std::vector<std::string>> {
    EXPECT_TRUE(kCat.starts_with(before) && kCat.ends_with(after));
    return std::vector<std::string>{"floor"};
  };
  r.back_translate = [](const std::string&, uint64_t) -> Result<std::string> {
    return std::string("The cat was sitting on the mat.");
  };
  r.paraphrase = [](const std::string&, uint64_t) -> Result<std::string> {
    return std::string("On the mat sat the cat.");
  };
  return r;
}

// All texts that a kind produces from `text` with 400 seeds.
std::set<std::string> all_of(const std::string& kind, const std::string& text = kCat, double rate = 0.1) {
  std::set<std::string> out;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    TextDraws d(seed, 0, 0);
    out.insert(augment_text(text, "", {kind, rate}, resources(), d).value());
  }
  return out;
}

std::vector<std::string> sorted_words(const std::string& text) {
  auto words = WordsOfText::split(text).words;
  for (std::string& w : words) w = lowered_ascii(w);
  std::sort(words.begin(), words.end());
  return words;
}

TEST(Augment, ChangesOfWordsMatchTheWorkedExample) {
  EXPECT_EQ(all_of("synonyms"),
            (std::set<std::string>{"The kitty sat on the mat.", "The cat sat on the rug."}));
  EXPECT_EQ(all_of("neighbors"), (std::set<std::string>{"The cat stood on the mat."}));
  const auto swapped = all_of("swap");
  EXPECT_EQ(swapped, (std::set<std::string>{"Cat the sat on the mat.", "The sat cat on the mat.",
                                            "The cat on sat the mat.", "The cat sat the on mat.",
                                            "The cat sat on mat the."}));
  EXPECT_EQ(all_of("deletion"),
            (std::set<std::string>{"Cat sat on the mat.", "The sat on the mat.", "The cat on the mat.",
                                   "The cat sat the mat.", "The cat sat on mat.", "The cat sat on the."}));
  EXPECT_TRUE(all_of("insertion").contains("The cat kitty sat on the mat."));
  EXPECT_TRUE(all_of("insertion").contains("The cat sat on the mat rug."));
  EXPECT_EQ(all_of("contextual"),
            (std::set<std::string>{"The floor sat on the mat.", "The cat floor on the mat.",
                                   "The cat sat on the floor."}));
  EXPECT_TRUE(all_of("entities").contains("The dog sat on the mat."));
  EXPECT_FALSE(all_of("entities").contains(kCat));
}

TEST(Augment, ChangesOfTextsMatchTheWorkedExample) {
  EXPECT_EQ(all_of("back-translation"), (std::set<std::string>{"The cat was sitting on the mat."}));
  EXPECT_EQ(all_of("paraphrase"), (std::set<std::string>{"On the mat sat the cat."}));
  EXPECT_EQ(all_of("split-merge"), (std::set<std::string>{"The cat sat. On the mat."}));
  for (const std::string& text : all_of("shuffle")) {
    EXPECT_NE(text, kCat);
    EXPECT_EQ(sorted_words(text), sorted_words(kCat));
    EXPECT_EQ(text.back(), '.');
  }
  for (const std::string& text : all_of("noise")) {
    EXPECT_LE(std::max(text.size(), kCat.size()) - std::min(text.size(), kCat.size()), 2u);
    EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 5);
  }
}

TEST(Augment, AdversarialChangesFoolTheClassifier) {
  TextsWithLabels data;
  for (const char* good : {"a good film", "good fun", "the good one", "so good"})
    data.texts.emplace_back(good), data.labels.emplace_back("positive");
  for (const char* bad : {"a bad film", "bad fun", "the bad one", "so bad"})
    data.texts.emplace_back(bad), data.labels.emplace_back("negative");
  const TextClassifier classifier = TextClassifier::train(data, {}).value();
  AugmentResources r = resources();
  r.synonyms = [](const std::string& w) -> std::vector<std::string> {
    return w == "good" ? std::vector<std::string>{"bad"} : std::vector<std::string>{};
  };
  r.classifier = &classifier;
  TextDraws d(1, 0, 0);
  const std::string changed = augment_text("a good film", "positive", {"adversarial", 0.5}, r, d).value();
  EXPECT_NE(changed, "a good film");
  EXPECT_EQ(classifier.labels()[classifier.classify(changed).label], "negative");
  // The sentence of the worked example: "kitty" is a word of the other label.
  TextsWithLabels pets;
  for (const char* text : {"the cat sat", "a cat on the mat"})
    pets.texts.emplace_back(text), pets.labels.emplace_back("old");
  for (const char* text : {"the kitty ran", "a kitty here"})
    pets.texts.emplace_back(text), pets.labels.emplace_back("young");
  const TextClassifier of_pets = TextClassifier::train(pets, {}).value();
  AugmentResources cats = resources();
  cats.classifier = &of_pets;
  const std::string fooled = augment_text(kCat, "old", {"adversarial", 0.5}, cats, d).value();
  EXPECT_NE(fooled, kCat);
  EXPECT_EQ(of_pets.labels()[of_pets.classify(fooled).label], "young") << fooled;
  // Nothing changes where the classifier is already wrong, or does not know the label.
  EXPECT_EQ(augment_text("a bad film", "positive", {"adversarial", 0.5}, r, d).value(), "a bad film");
  EXPECT_EQ(augment_text("a good film", "unknown", {"adversarial", 0.5}, r, d).value(), "a good film");
}

TEST(Augment, RatesCountWords) {
  std::string text = "Start";
  for (int i = 0; i < 99; ++i) text += " word" + std::to_string(i);
  TextDraws d(3, 0, 0);
  EXPECT_EQ(WordsOfText::split(augment_text(text, "", {"deletion", 0.2}, {}, d).value()).words.size(), 80u);
  EXPECT_EQ(WordsOfText::split(augment_text(text, "", {"insertion", 0.05}, {}, d).value()).words.size(),
            105u);
}

TEST(Augment, ACopyDependsOnlyOnSeedRecordAndCopyNumber) {
  const auto text = [](uint64_t seed, uint64_t record, uint64_t copy) {
    TextDraws d(seed, record, copy);
    return augment_text("One two three four five six seven eight nine ten.", "", {"swap", 0.3}, {}, d)
        .value();
  };
  EXPECT_EQ(text(1, 5, 2), text(1, 5, 2));
  EXPECT_NE(text(1, 5, 2), text(1, 5, 3));
  EXPECT_NE(text(1, 5, 2), text(1, 6, 2));
  EXPECT_NE(text(1, 5, 2), text(2, 5, 2));
}

TEST(Augment, SentencesSplitAndMerge) {
  EXPECT_EQ(sentences_of("A b. C d! 3 e? f."), (std::vector<std::string>{"A b.", "C d!", "3 e? f."}));
  const auto variants = all_of("split-merge", "The sun rose. The birds sang.");
  EXPECT_TRUE(variants.contains("The sun rose, and the birds sang."));
  EXPECT_EQ(all_of("shuffle", "One is here. Two is there."),
            (std::set<std::string>{"Two is there. One is here."}));
}

TEST(Augment, MissingResourcesAndUnknownKindsAreErrors) {
  for (const AugmentKind& kind : augment_kinds())
    EXPECT_EQ(check(AugmentStep{kind.name}, AugmentResources{}).ok(), std::string(kind.needs).empty())
        << kind.name;
  EXPECT_EQ(augment_kinds().size(), 13u);
  EXPECT_NE(parse_step("swop").error().message.find("swap"), std::string::npos);
  EXPECT_FALSE(parse_step("swap:0").ok());
  EXPECT_FALSE(parse_step("swap:2").ok());
  EXPECT_FALSE(parse_step("swap:nan").ok());
  EXPECT_EQ(parse_step("swap:0.25")->rate, 0.25);
}

TEST(Augment, EveryKindAcceptsOddTexts) {
  for (const std::string text : {"", ".", "a", "\xff\xfe", "...!?", "I", " \n ", "a-b'c", "\"Quoted.\" Yes."})
    for (const AugmentKind& kind : augment_kinds()) {
      if (!std::string(kind.needs).empty()) continue;
      TextDraws d(1, 2, 3);
      EXPECT_TRUE(augment_text(text, "", {kind.name, 1.0}, {}, d).ok()) << kind.name;
    }
}

TEST(Instructions, TemplatesNameLabelsAndFields) {
  const InstructionTask* sentiment = find_task("sentiment").value();
  std::set<std::string> instructions;
  for (size_t i = 0; i < sentiment->templates.size(); ++i) {
    const Json record = as_instruction({{"text", "a fine film"}, {"label", 1}}, *sentiment, {"0", "1"},
                                       {{"0", "negative"}, {"1", "positive"}}, i)
                            .value();
    EXPECT_EQ(record["output"], "positive");
    EXPECT_NE(record["instruction"].get<std::string>().find("negative, positive"), std::string::npos);
    EXPECT_NE(record["input"].get<std::string>().find("a fine film"), std::string::npos);
    instructions.insert(record["instruction"]);
  }
  EXPECT_EQ(instructions.size(), sentiment->templates.size());
  EXPECT_FALSE(as_instruction({{"text", "x"}}, *sentiment, {}, {}, 0).ok());
  const Json squad = {
      {"context", "Rome is old."}, {"question", "What is old?"}, {"answers", {{"text", {"Rome"}}}}};
  EXPECT_EQ(as_instruction(squad, *find_task("question-answer").value(), {}, {}, 1).value()["output"],
            "Rome");
  EXPECT_EQ(as_instruction({{"source", "a"}, {"target", "b"}}, *find_task("translation").value(), {}, {}, 0)
                .value()["input"],
            "a");
  EXPECT_NE(find_task("sentimental").error().message.find("sentiment"), std::string::npos);
}

TEST(Instructions, FiltersDropKnownInstructions) {
  EXPECT_EQ(numbered_list({"Say hello.", "Count to ten."}), "1. Say hello.\n2. Count to ten.\n3.");
  EXPECT_EQ(next_instruction("  Name three birds. \n4. Sing."), "Name three birds.");
  EXPECT_EQ(next_instruction(" \n "), "");
  InstructionFilter filter(0.7);
  filter.add_known("Write a poem about the sea.");
  EXPECT_EQ(filter.drop("Write a poem about the sea"), "similar");
  EXPECT_EQ(filter.drop("Go on"), "short");
  EXPECT_EQ(filter.drop("... and three more words"), "punctuation");
  EXPECT_EQ(filter.drop("Draw a picture of a house."), "not text");
  EXPECT_EQ(filter.drop("List five rivers of Europe."), "");
  EXPECT_EQ(filter.drop("List five rivers of Europe."), "similar");
  std::string long_text = "Explain";
  for (int i = 0; i < 200; ++i) long_text += " why";
  EXPECT_EQ(filter.drop(long_text), "long");
}

}  // namespace
