// TREC runs and judgements, with located errors.
#include "data/trec.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

LineReader lines(const std::string& text) {
  return LineReader(std::move(*ByteStream::from_memory(text, "run")));
}

TEST(Trec, RunsAndJudgementsAreRead) {
  const auto run = read_trec_run(lines("q1 Q0 d1 1 12.5 bm25\r\n\nq1\tQ0\td2 2 -3e-1 bm25"));
  ASSERT_TRUE(run.ok()) << run.error().text();
  ASSERT_EQ(run->size(), 2u);
  EXPECT_EQ((*run)[1].document, "d2");
  EXPECT_DOUBLE_EQ((*run)[1].score, -0.3);
  for (const char* text : {"q1 0 d1 2\n", "query-id\tcorpus-id\tscore\nq1\td1\t2\n"}) {
    const auto judged = read_judgements(lines(text));
    ASSERT_TRUE(judged.ok()) << judged.error().text();
    ASSERT_EQ(judged->size(), 1u);
    EXPECT_EQ((*judged)[0].document, "d1");
    EXPECT_EQ((*judged)[0].score, 2);
  }
}

TEST(Trec, ErrorsNameTheLine) {
  for (const char* text : {"q Q0 d 1 2 t\nq Q0 d 1 2\n", "q Q0 d 1 2 t\nq Q0 e 1 nan t\n",
                           "q Q0 d 1 2 t\nq Q0 e 1 2x t\n", "q Q0 d 1 2 t\nq Q0 d 2 1 t\n"}) {
    const auto run = read_trec_run(lines(text));
    ASSERT_FALSE(run.ok()) << text;
    EXPECT_NE(run.error().text().find("run:2"), std::string::npos) << run.error().text();
  }
}

}  // namespace
}  // namespace makar
