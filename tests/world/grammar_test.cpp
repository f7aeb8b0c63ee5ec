// The English of the stories: articles, capitals, spaces, and pronouns with one possible meaning.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "world/record.h"

namespace makar::world {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    if (isalpha(static_cast<unsigned char>(c)) || c == '-' || c == '\'') {
      word += c;
      continue;
    }
    if (!word.empty()) out.push_back(word);
    word.clear();
  }
  return out;
}

// All texts of one record.
std::vector<std::string> texts(uint64_t i) {
  const WorldOptions o{11, i % 2 ? Split::kTrain : Split::kTest, 5 + static_cast<int>(i % 7)};
  std::vector<std::string> out = {make_record(Form::kText, o, i)["text"]};
  for (const Json& m : make_record(Form::kInstructions, o, i)["messages"]) out.push_back(m["content"]);
  const Json p = make_record(Form::kPreferences, o, i);
  for (const char* key : {"prompt", "chosen", "rejected"}) out.push_back(p[key]);
  return out;
}

TEST(WorldGrammar, SpacesCapitalsAndEnds) {
  for (uint64_t i = 0; i < 1500; ++i)
    for (const std::string& text : texts(i)) {
      EXPECT_EQ(text.find("  "), std::string::npos) << text;
      EXPECT_EQ(text.find("{}"), std::string::npos) << text;
      EXPECT_EQ(text.find(" ."), std::string::npos) << text;
      EXPECT_EQ(text.find(".."), std::string::npos) << text;
      const char first = text[text[0] == '"' ? 1 : 0], last = text.back();
      EXPECT_TRUE(isupper(static_cast<unsigned char>(first))) << text;
      EXPECT_TRUE(last == '.' || last == '?' || last == '"') << text;
      // A capital after each full stop.
      for (size_t at = text.find(". "); at != std::string::npos; at = text.find(". ", at + 1)) {
        const char next = text[at + 2] == '"' ? text[at + 3] : text[at + 2];
        EXPECT_TRUE(isupper(static_cast<unsigned char>(next))) << text.substr(at);
      }
      for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
      EXPECT_EQ(std::count(text.begin(), text.end(), '"') % 2, 0) << text;
    }
}

TEST(WorldGrammar, ArticlesFitTheNextSound) {
  const std::set<std::string> an_before = {"hour", "hourglass"}, a_before = {"unicorn", "uniform", "ukulele"};
  int checked = 0;
  for (uint64_t i = 0; i < 1500; ++i)
    for (const std::string& text : texts(i)) {
      const auto words = words_of(text);
      for (size_t k = 0; k + 1 < words.size(); ++k) {
        const std::string& next = words[k + 1];
        const bool vowel =
            (std::string("aeiouAEIOU").find(next[0]) != std::string::npos && !a_before.count(next)) ||
            an_before.count(next);
        if (words[k] == "a" || words[k] == "A") EXPECT_FALSE(vowel) << "a " << next << " in " << text;
        if (words[k] == "an" || words[k] == "An") EXPECT_TRUE(vowel) << "an " << next << " in " << text;
        checked += words[k] == "a" || words[k] == "an";
      }
    }
  EXPECT_GT(checked, 1000);
}

TEST(WorldGrammar, NumbersAgreeWithTheirNouns) {
  std::set<std::string> ones, manies;
  for (const Item& item : items()) ones.insert(std::string(item.one)), manies.insert(std::string(item.many));
  const std::set<std::string> numbers = {"two",   "three", "four", "five", "six",
                                         "seven", "eight", "nine", "ten"};
  for (uint64_t i = 0; i < 2000; ++i) {
    const Sample s({12, Split::kTrain, 7}, i);
    auto words = words_of(s.scene.text);
    std::erase(words, "more");
    for (size_t k = 0; k + 1 < words.size(); ++k) {
      if (words[k] == "one" || words[k] == "One") EXPECT_FALSE(manies.count(words[k + 1])) << s.scene.text;
      if (numbers.count(words[k])) EXPECT_FALSE(ones.count(words[k + 1])) << s.scene.text;
    }
  }
}

// A sentence states its events. "he" or "she" at a subject means the person of that sex who was named
// last.
TEST(WorldGrammar, SentencesStateTheirEventsAndPronounsAreClear) {
  int pronouns = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const Sample s({13, Split::kTrain, 4 + static_cast<int>(i % 10)}, i);
    const Story& story = s.scene.story;
    std::string recent[2];  // the last man and woman
    size_t stated = 0;
    for (const Sentence& sentence : s.scene.sentences) {
      const std::string place = s.scene.text;
      std::string subject;
      for (const std::string& word : words_of(sentence.text)) {
        const std::string plain = word.substr(0, word.find('\''));
        for (const Person& p : story.people)
          if (plain == p.name) {
            recent[p.female] = plain;
            if (subject.empty()) subject = plain;
          }
        const bool she = word == "she" || word == "She";
        if (she || word == "he" || word == "He") {
          ++pronouns;
          ASSERT_FALSE(recent[she].empty()) << place;
          if (subject.empty()) subject = recent[she];
        }
      }
      if (sentence.first < 0) continue;
      EXPECT_EQ(stated, static_cast<size_t>(sentence.first)) << "no event is left out";
      stated = static_cast<size_t>(sentence.last) + 1;
      const auto has = [&](std::string_view what) { return sentence.text.find(what) != std::string::npos; };
      for (int k = sentence.first; k <= sentence.last; ++k) {
        const Event& e = story.events[static_cast<size_t>(k)];
        if (e.a >= 0 && e.kind != Kind::kRelation && e.kind != Kind::kOwns)
          EXPECT_EQ(subject, story.people[static_cast<size_t>(e.a)].name) << sentence.text << "\n" << place;
        if (e.b >= 0) EXPECT_TRUE(has(story.people[static_cast<size_t>(e.b)].name)) << sentence.text;
        if (e.thing >= 0)
          EXPECT_TRUE(has(story.things[static_cast<size_t>(e.thing)].noun) || has(" it ")) << sentence.text;
        if (e.kind == Kind::kThing || e.kind == Kind::kHolds)
          EXPECT_TRUE(has(story.things[static_cast<size_t>(e.thing)].colour)) << sentence.text;
        if (e.place >= 0 && e.kind != Kind::kDrop)
          EXPECT_TRUE(has(story.places[static_cast<size_t>(e.place)].noun)) << sentence.text;
        if (!e.word.empty()) EXPECT_TRUE(has(e.word)) << sentence.text;
        if (e.activity) EXPECT_TRUE(has(e.activity->complement)) << sentence.text;
        if (e.kind == Kind::kPet)
          EXPECT_TRUE(has(story.pets[static_cast<size_t>(e.n)].name)) << sentence.text;
        if (e.n > 0 && e.kind != Kind::kPet) EXPECT_TRUE(has(number(e.n))) << sentence.text;
        if (e.hours > 0) EXPECT_TRUE(has(number(e.hours) + " hour")) << sentence.text;
      }
    }
    EXPECT_EQ(stated, story.events.size());
    if (HasFailure()) return;
  }
  EXPECT_GT(pronouns, 500);
}

TEST(WorldLexicon, EntriesAreDistinctAndNamesMeanOneThing) {
  std::set<std::string> capitals;
  for (const Words* list : {&women(), &men(), &pet_names(), &towns()})
    for (const Word word : *list)
      EXPECT_TRUE(capitals.insert(std::string(word)).second) << word << " is twice in the names";
  for (const Words* list :
       {&objects(), &colours(), &foods(), &animals(), &jobs(), &feelings(), &weathers(), &adverbs()}) {
    std::set<std::string> seen;
    for (const Word word : *list) {
      EXPECT_TRUE(seen.insert(std::string(word)).second) << word << " is twice in its list";
      EXPECT_TRUE(islower(static_cast<unsigned char>(word[0]))) << word;
    }
  }
  std::set<std::string> nouns;
  for (const Place& p : places()) EXPECT_TRUE(nouns.insert(std::string(p.noun)).second) << p.noun;
  for (const Activity& a : activities())
    EXPECT_TRUE(nouns.insert(std::string(a.verb.base) + " " + std::string(a.complement)).second)
        << a.complement;
}

TEST(WorldLexicon, SeveralThousandWords) {
  std::set<std::string> vocabulary;
  for (uint64_t i = 0; i < 20000; ++i)
    for (const std::string& word : words_of(make_record(Form::kText, {1, Split::kTrain, 7}, i)["text"]))
      vocabulary.insert(word);
  RecordProperty("words", static_cast<int>(vocabulary.size()));
  EXPECT_GT(vocabulary.size(), 2300u);
}

TEST(WorldLexicon, WordForms) {
  EXPECT_EQ(number(0), "zero");
  EXPECT_EQ(number(13), "thirteen");
  EXPECT_EQ(number(42), "forty-two");
  EXPECT_EQ(with_article("otter"), "an otter");
  EXPECT_EQ(with_article("hourglass"), "an hourglass");
  EXPECT_EQ(with_article("uniform"), "a uniform");
  EXPECT_EQ(regular("study").past, "studied");
  EXPECT_EQ(regular("study").third, "studies");
  EXPECT_EQ(regular("chop").past, "chopped");
  EXPECT_EQ(regular("watch").third, "watches");
  for (const Item& item : items()) EXPECT_NE(item.one, item.many);
}

}  // namespace
}  // namespace makar::world
