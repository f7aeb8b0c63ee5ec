// Evaluation of answers with a scripted judge; sources that fit a context.
#include <gtest/gtest.h>

#include "retrieval/answer_drafts.h"

namespace makar {
namespace {

SearchHit passage(const std::string& text) {
  SearchHit hit;
  hit.chunk.text = text, hit.chunk.name = "d", hit.chunk.end = static_cast<int64_t>(text.size());
  return hit;
}

// A judge with probability 0.9 for the prompts that `yes` accepts and 0.2 for others.
YesNoJudge judge_by(std::function<bool(const std::string&)> yes) {
  return [yes = std::move(yes)](const std::vector<std::string>& prompts) {
    std::vector<double> out;
    for (const std::string& prompt : prompts) out.push_back(yes(prompt) ? 0.9 : 0.2);
    return Result<std::vector<double>>(out);
  };
}

TEST(AnswerEvaluation, MatchesClosedForms) {
  const std::vector<SearchHit> passages = {passage("useful A."), passage("noise."), passage("useful B."),
                                           passage("noise.")};
  const auto judge = judge_by([](const std::string& p) {
    if (p.find("Is the text above useful") != p.npos) return p.starts_with("useful");
    if (p.find("Does the text above support") != p.npos) return p.find("Statement: True") != p.npos;
    return p.find("Answer: True") != p.npos;
  });
  const auto scores = score_answer("q?", "True one. False two.",
                                   "True one. True two. False three. True four.", passages, judge);
  ASSERT_TRUE(scores.ok());
  EXPECT_DOUBLE_EQ(scores->context_precision, (1.0 / 1 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(scores->context_recall, 0.5);
  EXPECT_DOUBLE_EQ(scores->faithfulness, 0.75);
  EXPECT_DOUBLE_EQ(scores->answer_relevance, 0.9);
  const auto nothing = score_answer("q?", "", "", {}, judge);
  EXPECT_EQ(nothing->context_precision + nothing->context_recall + nothing->faithfulness +
                nothing->answer_relevance,
            0);
}

TEST(AnswerDrafts, TheBestSafeDraftIsChosen) {
  const std::vector<SearchHit> sources = {passage("The keeper counts ships at night.")};
  const auto analyzer = Analyzer::open({});
  DraftOptions options;
  options.toxicity = [](std::string_view text) { return text.find("stupid") != text.npos ? 0.9 : 0.1; };
  std::vector<std::string> judged;
  options.judge = [&](const std::vector<std::string>& prompts) {
    std::vector<double> out;
    for (const std::string& prompt : prompts) {
      judged.push_back(prompt);
      out.push_back(prompt.find("Answer: The keeper counts") != prompt.npos ? 0.9 : 0.5);
    }
    return Result<std::vector<double>>(out);
  };
  std::vector<AnswerDraft> drafts = {{"The keeper counts ships, stupid."},
                                     {"A cook bakes bread."},
                                     {"The keeper counts ships."},
                                     {"The keeper counts ships."},
                                     {""}};
  const auto best = choose_draft("Who counts ships?", sources, *analyzer, 0.5, options, drafts);
  ASSERT_TRUE(best.ok());
  EXPECT_EQ(*best, 2);  // the first of two equal ones; the toxic one would be as good
  EXPECT_FALSE(drafts[0].safe);
  EXPECT_DOUBLE_EQ(drafts[0].score, 0);
  EXPECT_DOUBLE_EQ(drafts[1].score, (0.5 + 0) / 2);
  EXPECT_DOUBLE_EQ(drafts[2].score, (0.9 + 1) / 2);
  EXPECT_EQ(judged.size(), 3u);  // neither the toxic nor the empty one
  options.threshold = 0.05;
  EXPECT_EQ(*choose_draft("Who?", sources, *analyzer, 0.5, options, drafts), -1);
}

TEST(FitSources, DropsThenShortens) {
  const EncodeSources encode = [](const std::vector<SearchHit>& sources) {
    std::vector<int64_t> out;
    for (const SearchHit& s : sources) out.resize(out.size() + s.chunk.text.size());
    return Result<std::vector<int64_t>>(out);
  };
  std::vector<SearchHit> sources = {passage("One is here. Two is here. Three is here. Four is here."),
                                    passage("More.")};
  auto fitted = sources;
  EXPECT_TRUE(fit_sources(encode, 0, 10, fitted).ok());
  EXPECT_EQ(fitted.size(), 2U);
  fitted = sources;
  EXPECT_TRUE(fit_sources(encode, 70, 15, fitted).ok());
  EXPECT_EQ(fitted.size(), 1U);
  fitted = sources;
  const auto prompt = fit_sources(encode, 45, 15, fitted);
  ASSERT_TRUE(prompt.ok());
  EXPECT_LE(prompt->size() + 15, 45U);
  EXPECT_EQ(fitted[0].chunk.end, static_cast<int64_t>(fitted[0].chunk.text.size()));
  fitted = sources;
  EXPECT_FALSE(fit_sources(encode, 20, 15, fitted).ok());
}

TEST(AskMessages, ConversationsKeepTheirTurns) {
  const Json conversation = Json::array({{{"role", "system"}, {"content", "Be brief."}},
                                         {{"role", "user"}, {"content", "first"}},
                                         {{"role", "assistant"}, {"content", "yes"}},
                                         {{"role", "user"}, {"content", "second"}}});
  const Json out = ask_messages(conversation, 3, {passage("P1")});
  ASSERT_EQ(out.size(), 4U);
  EXPECT_TRUE(out[0]["content"].get<std::string>().starts_with("Be brief."));
  EXPECT_EQ(out[1]["content"], "first");
  EXPECT_NE(out[3]["content"].get<std::string>().find("P1"), std::string::npos);
  EXPECT_TRUE(out[3]["content"].get<std::string>().ends_with("Question: second"));
}

}  // namespace
}  // namespace makar
