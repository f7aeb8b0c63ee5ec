// Records: the same bytes everywhere, disjoint splits, sound preferences, and the checker.
#include "world/record.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/sha256.h"
#include "data/schema.h"
#include "scratch_folder.h"
#include "world/check.h"

namespace makar::world {
namespace {

TEST(WorldRecords, FirstRecordsAreTheSameBytesOnEveryMachine) {
  std::string all;
  for (size_t form = 0; form < form_names().size(); ++form)
    for (const Split split : {Split::kTrain, Split::kTest, Split::kNames})
      for (uint64_t i = 0; i < 50; ++i)
        all += make_record(static_cast<Form>(form), {1, split, 7}, i).dump() + "\n";
  EXPECT_EQ(sha256_of(all), "0355583aea1535972d4d8d3c0e93bafb78f8c6baef083c4483a15bd4a6696e90");
}

TEST(WorldRecords, ARecordDependsOnItsNumberOnly) {
  const WorldOptions o{3, Split::kTrain, 7};
  const Json later = make_record(Form::kText, o, 1000000007);
  make_record(Form::kText, o, 5);
  EXPECT_EQ(later, make_record(Form::kText, o, 1000000007));
  std::set<std::string> texts;
  for (uint64_t i = 0; i < 2000; ++i) texts.insert(make_record(Form::kText, o, i)["text"]);
  EXPECT_EQ(texts.size(), 2000u);
  EXPECT_NE(make_record(Form::kText, {4, Split::kTrain, 7}, 5), make_record(Form::kText, o, 5));
}

// Pairs of names in all texts of a record.
std::set<std::pair<std::string, std::string>> pairs_of(const std::string& text) {
  static const std::set<std::string> names = [] {
    std::set<std::string> out;
    for (const Words* list : {&women(), &men()})
      for (const Word name : *list) out.insert(std::string(name));
    return out;
  }();
  std::set<std::string> found;
  std::string word;
  for (const char c : text + " ") {
    if (isalpha(static_cast<unsigned char>(c))) {
      word += c;
      continue;
    }
    if (names.count(word)) found.insert(word);
    word.clear();
  }
  std::set<std::pair<std::string, std::string>> out;
  for (const std::string& a : found)
    for (const std::string& b : found)
      if (a < b) out.emplace(a, b);
  return out;
}

TEST(WorldRecords, PeopleOfATestStoryNeverMeetInTrain) {
  std::set<std::pair<std::string, std::string>> pairs[3];
  std::set<std::string> people[3];
  for (const Split split : {Split::kTrain, Split::kTest, Split::kNames})
    for (size_t form = 0; form < form_names().size(); ++form)
      for (uint64_t i = 0; i < 2000; ++i) {
        const Json r =
            make_record(static_cast<Form>(form), {1 + i % 3, split, 5 + static_cast<int>(i % 9)}, i);
        std::string text = r.dump();  // a line break is "\\n" there
        for (size_t at = text.find("\\n"); at != std::string::npos; at = text.find("\\n"))
          text.replace(at, 2, "  ");
        const auto found = pairs_of(text);
        ASSERT_FALSE(found.empty()) << "every record names two people: " << r.dump();
        for (const auto& pair : found) {
          pairs[static_cast<size_t>(split)].insert(pair);
          people[static_cast<size_t>(split)].insert(pair.first),
              people[static_cast<size_t>(split)].insert(pair.second);
        }
      }
  for (const auto& pair : pairs[1])
    ASSERT_FALSE(pairs[0].count(pair)) << pair.first << " and " << pair.second;
  for (const std::string& name : people[2])
    ASSERT_FALSE(people[0].count(name) || people[1].count(name)) << name;
  EXPECT_GT(pairs[0].size(), 5000u);
  EXPECT_GT(pairs[1].size(), 2000u);
  EXPECT_EQ(people[0].size(), people[1].size()) << "each name is in both";
}

TEST(WorldRecords, FormsHaveTheSchemasOfTheirCommands) {
  const WorldOptions o{1, Split::kTrain, 7};
  EXPECT_EQ(detect_schema(make_record(Form::kText, o, 0)), Schema::kText);
  EXPECT_EQ(detect_schema(make_record(Form::kInstructions, o, 0)), Schema::kMessages);
  EXPECT_EQ(detect_schema(make_record(Form::kPreferences, o, 0)), Schema::kPreference);
  EXPECT_EQ(detect_schema(make_record(Form::kRewards, o, 0)), Schema::kPrompt);
  for (uint64_t i = 0; i < 500; ++i) {
    const Json messages = make_record(Form::kInstructions, o, i)["messages"];
    ASSERT_GE(messages.size(), 2u);
    for (size_t k = 0; k < messages.size(); ++k) EXPECT_EQ(messages[k]["role"], k % 2 ? "assistant" : "user");
  }
}

TEST(WorldRecords, PreferencesHaveOneBetterAnswerAndSayWhy) {
  std::map<std::string, int> kinds;
  for (uint64_t i = 0; i < 4000; ++i) {
    const WorldOptions o{2, Split::kTest, 7};
    const Json r = make_record(Form::kPreferences, o, i);
    const std::string id = r["id"], chosen = r["chosen"], rejected = r["rejected"], kind = r["kind"];
    ++kinds[kind];
    EXPECT_NE(chosen, rejected);
    EXPECT_TRUE(check_answer(id, chosen)->exact) << r.dump();
    EXPECT_FALSE(check_answer(id, rejected)->normalized) << r.dump();
    if (kind == "too_long") EXPECT_GT(rejected.size(), chosen.size() + 80) << r.dump();
    if (kind == "rude") EXPECT_NE(rejected.find(chosen), std::string::npos) << r.dump();
  }
  ASSERT_EQ(kinds.size(), 4u);
  for (const auto& [kind, n] : kinds) EXPECT_GT(n, 800) << kind;
}

TEST(WorldRecords, OneUnfilteredAnswerInFiveIsRight) {
  std::map<std::string, int> kinds;
  for (uint64_t i = 0; i < 2000; ++i) {
    const WorldOptions o{2, Split::kTest, 7};
    const Json r = make_record(Form::kUnfiltered, o, i);
    EXPECT_EQ(r["messages"][0], make_record(Form::kPrompts, o, i)["messages"][0]);
    const std::string kind = r["kind"], answer = r["messages"][1]["content"];
    ++kinds[kind];
    EXPECT_EQ(check_answer(record_id(o, i), answer)->exact, kind == "right") << r.dump();
  }
  ASSERT_EQ(kinds.size(), 5u);
  for (const auto& [kind, n] : kinds) EXPECT_NEAR(n, 400, 80) << kind;
}

TEST(WorldRecords, RankedAnswersAreOrdered) {
  std::set<size_t> sizes;
  for (uint64_t i = 0; i < 1000; ++i) {
    const Json r = make_record(Form::kRanked, {2, Split::kTrain, 7}, i);
    const auto answers = r["answers"].get<std::vector<std::string>>();
    const auto ranks = r["ranks"].get<std::vector<int>>();
    ASSERT_EQ(answers.size(), ranks.size());
    sizes.insert(answers.size());
    EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
    EXPECT_EQ(ranks[0], 0);
    EXPECT_GT(ranks[1], 0);
    EXPECT_EQ(std::set<std::string>(answers.begin(), answers.end()).size(), answers.size());
    EXPECT_TRUE(check_answer(r["id"], answers[0])->exact);
  }
  EXPECT_EQ(sizes, (std::set<size_t>{4, 5, 6, 7, 8, 9}));
}

TEST(WorldCheck, NormalizedFormsOfAnAnswer) {
  EXPECT_EQ(normalized("  In the Barn!"), "in barn");
  EXPECT_EQ(normalized("9"), normalized("Nine."));
  EXPECT_EQ(normalized("25"), normalized("twenty-five"));
  EXPECT_EQ(normalized("an otter"), normalized("Otter."));
  EXPECT_NE(normalized("In the barn."), normalized("In the garden."));
  EXPECT_EQ(normalized(""), "");
  const WorldOptions o{1, Split::kTest, 7};
  int sentences = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    const Sample s(o, i);
    const std::string id = record_id(o, i);
    EXPECT_TRUE(check_answer(id, " " + s.answer() + "\n")->exact);
    EXPECT_TRUE(check_answer(id, s.question.answer(true))->normalized);
    EXPECT_TRUE(check_answer(id, s.question.answer(false))->normalized);
    EXPECT_FALSE(check_answer(id, s.answer() + " Perhaps.")->normalized);
    EXPECT_FALSE(check_answer(id, "")->normalized);
    sentences += s.in_sentence;
  }
  EXPECT_GT(sentences, 10);
  EXPECT_LT(sentences, 290);
}

TEST(WorldCheck, IdsAreReadStrictly) {
  const WorldOptions o{18446744073709551615u, Split::kNames, 40};
  const std::string id = record_id(o, 99);
  const auto parsed = parse_id(id);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(record_id(parsed->options, parsed->record), id);
  for (const char* bad :
       {"", "world4", "world4-test-1-7", "world3-test-1-7-0", "world4-dev-1-7-0", "world4-test-1-2-0",
        "world4-test-1-41-0", "world4-test--1-7-0", "world4-test-01-7-0", "world4-test-1-7-0-0",
        "world4-test-1-7-x", "world4-test-1-7-0 ", "world4-test-99999999999999999999-7-0"})
    EXPECT_FALSE(parse_id(bad).ok()) << bad;
  EXPECT_LT(parse_id(std::string(100000, 'a')).error().text().size(), 300u);
}

TEST(WorldCheck, AnswersFilesById) {
  ScratchFolder f;
  const WorldOptions o{1, Split::kTest, 7};
  std::string by_id, by_line;
  for (uint64_t i = 0; i < 20; ++i) {
    const Sample s(o, i);
    const std::string answer = i < 15 ? s.answer() : "I do not know.";
    by_id += Json{{"id", record_id(o, i)}, {"answer", answer}}.dump() + "\n";
    by_line += Json{{"answers", Json::array({Json{{"text", answer}}})}}.dump() + "\n";
  }
  by_id +=
      "not json\n{\"id\": \"world4-test-1-7-0\"}\n{\"id\": 5, \"answer\": \"x\"}\n{\"id\": \"nothing\", "
      "\"answer\": \"x\"}\n";
  const auto report = check_answers(f.write("by_id.jsonl", by_id), {}, 0);
  ASSERT_TRUE(report.ok()) << report.error().text();
  EXPECT_EQ(report->all.answers, 20u);
  EXPECT_EQ(report->all.exact, 15u);
  EXPECT_EQ(report->all.normalized, 15u);
  EXPECT_EQ(report->bad.count, 4u);
  EXPECT_NE(report->bad.reported[1].find(":22: expected \"answer\""), std::string::npos)
      << report->bad.reported[1];
  uint64_t sum = 0;
  for (const auto& [kind, score] : report->kinds) sum += score.answers;
  EXPECT_EQ(sum, 20u);
  const auto lines = check_answers(f.write("by_line.jsonl", by_line), o, 0);
  ASSERT_TRUE(lines.ok());
  EXPECT_EQ(lines->all.exact, 15u);
  const auto shifted = check_answers(f.write("shifted.jsonl", by_line.substr(by_line.find('\n') + 1)), o, 1);
  EXPECT_EQ(shifted->all.exact, 14u);
  EXPECT_FALSE(check_answers(f.path() + "/absent.jsonl", o, 0).ok());
}

TEST(WorldCheck, ComparesByGrade) {
  ScratchFolder f;
  const WorldOptions o{1, Split::kTest, 7};
  EXPECT_EQ(check_answer(o, 0, Sample(o, 0).answer()).grade, Grade::kRight);
  EXPECT_EQ(check_answer(o, 0, Sample(o, 0).answer() + " Learn to read.").grade, Grade::kRightAmongOthers);
  EXPECT_EQ(check_answer(o, 0, "x" + Sample(o, 0).answer()).grade, Grade::kWrong);
  EXPECT_EQ(check_answer(o, 0, "").grade, Grade::kWrong);
  // Line i: the grade of the first file is i / 3, that of the second i % 3.
  std::string files[2];
  for (uint64_t i = 0; i < 9; ++i)
    for (int side = 0; side < 2; ++side) {
      const uint64_t grade = side == 0 ? i / 3 : i % 3;
      const std::string right = Sample(o, i).answer();
      files[side] += Json{{"answer", grade == 2   ? right
                                     : grade == 1 ? "Well. " + right
                                                  : "No idea."}}
                         .dump() +
                     "\n";
    }
  const auto first = check_answers(f.write("first.jsonl", files[0]), o, 0, 0, true);
  const auto second = check_answers(f.write("second.jsonl", files[1]), o, 0, 0, true);
  const auto compared = compare(*first, *second);
  ASSERT_TRUE(compared.ok());
  const Comparison& c = *compared;
  EXPECT_EQ(c.better, 3u);
  EXPECT_EQ(c.worse, 3u);
  EXPECT_EQ(c.both_right, 1u);
  EXPECT_EQ(c.both_wrong, 1u);
  EXPECT_EQ(c.both_among_others, 1u);
  EXPECT_EQ(c.count(), 9u);
  const auto others = check_answers(f.write("others.jsonl", files[1]), o, 1, 0, true);
  EXPECT_FALSE(compare(*first, *others).ok()) << "other questions";
}

}  // namespace
}  // namespace makar::world
