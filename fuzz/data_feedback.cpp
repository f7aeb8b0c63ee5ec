// Any JSON as feedback on answers: a prompt with answers that begin with the assistant, or a bounded message;
// the records written in every form can be read again.
#include "data/feedback.h"
#include "data/ranked_record.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(data_feedback) {
  const auto record = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!record.ok()) return 0;
  auto feedback = read_feedback(*record);
  if (!feedback.ok()) {
    check(feedback.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  check(!feedback->prompt.empty() && !feedback->answers.empty() &&
            feedback->answers.size() == feedback->ranks.size(),
        "a prompt and ranked answers");
  for (const Json& answer : feedback->answers)
    check(answer.is_array() && !answer.empty() && answer.front().value("role", "") == "assistant",
          "an answer begins with the assistant");
  if (!feedback->critique.empty()) {
    check(revision_request(*feedback).size() > feedback->prompt.size(),
          "the request extends the conversation");
    add_revision(*feedback, "Better.");
  }
  for (const std::string& form : feedback_form_names()) {
    const Status written =
        for_each_record(*feedback, *feedback_form_named(form), [&](const Json& out) -> Status {
          check(out.is_object(), "records are objects");
          if (form == "pairs") check(to_preference(out).ok(), "a pair is read again");
          if (form == "ranked") check(to_ranking(out).ok(), "a ranking is read again");
          if (form == "rated") check(to_labelled(out).ok(), "a labelled answer is read again");
          return Done{};
        });
    check(written.ok() || written.error().text().size() < 4000, "a bounded message");
  }
  return 0;
}
