// Any JSON as a preference, ranked or labelled record: a prompt with answers that begin with the assistant,
// or a bounded message.
#include "data/ranked_record.h"
#include "target.h"

using namespace makar;

namespace {

void check_answer(const Json& answer) {
  check(answer.is_array() && !answer.empty() && answer.front().value("role", "") == "assistant",
        "an answer begins with the assistant");
}

void check_other_records(const Json& record) {
  if (const auto ranking = to_ranking(record); ranking.ok()) {
    check(!ranking->prompt.empty() && ranking->answers.size() >= 2 &&
              ranking->answers.size() <= RankedRecord::kMaxAnswers &&
              ranking->ranks.size() == ranking->answers.size(),
          "ranked answers");
    for (const Json& answer : ranking->answers) check_answer(answer);
  } else {
    check(ranking.error().text().size() < 4000, "a bounded message");
  }
  if (const auto rating = to_labelled(record); rating.ok()) {
    check(!rating->prompt.empty(), "there is a prompt");
    check_answer(rating->answer);
  } else {
    check(rating.error().text().size() < 4000, "a bounded message");
  }
  if (const auto quality = to_quality(record); quality.ok()) {
    check(!quality->prompt.empty() && !quality->ratings.empty(), "there is a prompt with ratings");
    check_answer(quality->answer);
    for (const auto& [name, value] : quality->ratings)
      check(value >= 0 && value <= 1, "a rating is between 0 and 1");
  } else {
    check(quality.error().text().size() < 4000, "a bounded message");
  }
}

}  // namespace

FUZZ_TARGET(data_preference) {
  const auto record = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!record.ok()) return 0;
  check_other_records(*record);
  const auto preference = to_preference(*record);
  if (!preference.ok()) {
    check(preference.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  check(preference->prompt.is_array() && !preference->prompt.empty(), "there is a prompt");
  for (const Json* answer : {&preference->chosen, &preference->rejected}) check_answer(*answer);
  check(preference->chosen != preference->rejected, "the answers differ");
  return 0;
}
