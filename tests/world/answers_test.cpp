// Every answer is derived a second time, by a reader that shares no code with the generator.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "story_reader.h"
#include "world/record.h"

namespace makar::world {
namespace {

std::string capital(std::string text) {
  text[0] = static_cast<char>(toupper(static_cast<unsigned char>(text[0])));
  return text;
}

TEST(WorldAnswers, AnIndependentReaderDerivesEveryAnswer) {
  std::map<std::string, int> kinds;
  for (const int events : {3, 7, 12, 40})
    for (const Split split : {Split::kTrain, Split::kTest, Split::kNames})
      for (uint64_t i = 0; i < (events == 40 ? 150u : 800u); ++i) {
        const Json r = make_record(Form::kQuestions, {5, split, events}, i);
        const std::string answer = r["answer"], derived = read_answer(r);
        ++kinds[r["kind"]];
        if (r["kind"] == "yes_no") {
          EXPECT_TRUE(answer.ends_with(derived == "yes" ? ", so yes." : ", so no.")) << r.dump(1);
          EXPECT_NE(answer.find(read_fact(r)), std::string::npos) << r.dump(1);
        } else {
          EXPECT_EQ(answer, capital(derived) + ".") << r.dump(1);
        }
        if (HasFailure()) return;
      }
  for (const std::string& kind : question_kinds()) EXPECT_GE(kinds[kind], 20) << kind;
}

// A reader that ignores events would go unnoticed if the answers did not depend on them.
TEST(WorldAnswers, AChangedStoryChangesTheDerivedAnswer) {
  int changed = 0, asked = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    Json r = make_record(Form::kQuestions, {6, Split::kTrain, 7}, i);
    const bool where = r["kind"] == "where_person";
    if (!where && r["kind"] != "how_many") continue;
    const std::string before = read_answer(r), who = r["query"]["who"];
    for (size_t k = r["events"].size(); k-- > 0;) {
      Json& e = r["events"][k];
      if (e.value("who", "") != who && e.value("with", "") != who) continue;
      if (where && (e["event"] == "go" || e["event"] == "here")) {
        e["place"] = "moon";
        break;
      }
      if (!where && e["event"] == "count") e["n"] = e["n"].get<int>() + 3;
    }
    ++asked, changed += read_answer(r) != before;
  }
  EXPECT_GT(asked, 100);
  EXPECT_EQ(changed, asked);
}

TEST(WorldAnswers, NoAnswerIsRightByHabit) {
  std::map<std::string, std::map<std::string, int>> answers;
  std::map<std::string, int> total;
  for (uint64_t i = 0; i < 20000; ++i) {
    const Json r = make_record(Form::kRewards, {7, Split::kTest, 7}, i);
    ++answers[r["kind"]][r["answer"]], ++total[r["kind"]];
  }
  for (const auto& [kind, counts] : answers) {
    int most = 0;
    for (const auto& [answer, n] : counts) most = std::max(most, n);
    EXPECT_LT(100 * most, 35 * total[kind])
        << kind << ": the most frequent answer is right in " << most << " of " << total[kind];
  }
}

// Neither is the person or place that the story names last, or first.
TEST(WorldAnswers, ThePositionInTheStoryDoesNotDecide) {
  std::map<std::string, int> last, first, total;
  for (uint64_t i = 0; i < 20000; ++i) {
    const WorldOptions o{8, Split::kTest, 7};
    const Sample s(o, i);
    if (!s.question.needs_story || s.question.kind == "people") continue;
    std::vector<std::pair<size_t, std::string>> at;  // values of this type by their last mention
    for (const std::string& value : s.question.wrong)
      if (const size_t found = s.scene.text.rfind(value); found != std::string::npos)
        at.emplace_back(found, value);
    if (at.empty()) continue;
    if (const size_t found = s.scene.text.rfind(s.question.value); found != std::string::npos)
      at.emplace_back(found, s.question.value);
    ++total[s.question.kind];
    last[s.question.kind] += std::max_element(at.begin(), at.end())->second == s.question.value;
    first[s.question.kind] += std::min_element(at.begin(), at.end())->second == s.question.value;
  }
  for (const char* kind : {"who_has", "who_gave", "who_is_there", "owner", "job", "town", "likes", "relation",
                           "more", "older", "when"}) {
    EXPECT_GT(total[kind], 50) << kind;
    EXPECT_LT(100 * last[kind], 80 * total[kind]) << kind << " " << last[kind] << " of " << total[kind];
    EXPECT_LT(100 * first[kind], 80 * total[kind]) << kind << " " << first[kind] << " of " << total[kind];
  }
}

TEST(WorldAnswers, WrongAnswersAreWrongAndDifferent) {
  for (uint64_t i = 0; i < 3000; ++i) {
    const Sample s({9, Split::kTrain, 7}, i);
    std::set<std::string> all(s.question.wrong.begin(), s.question.wrong.end());
    EXPECT_EQ(all.size(), 5u) << s.prompt;
    EXPECT_FALSE(all.count(s.question.value)) << s.prompt << "\n" << s.question.value;
  }
}

}  // namespace
}  // namespace makar::world
