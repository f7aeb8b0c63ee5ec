// Feedback of people on answers (preferences, rankings, demonstrations, corrections, critiques and thumbs),
// converted to records that the training commands read.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

enum class FeedbackKind {
  kPreference,     // {"prompt", "chosen", "rejected"}
  kRanking,        // {"prompt", "answers", "ranks"}
  kCorrection,     // {"prompt", "completion", "correction"}: what the answer should have been
  kCritique,       // {"prompt", "completion", "critique", "revision"}; the revision may be missing
  kThumb,          // {"prompt", "completion", "label" or "thumb"}: true, false, 1, 0, "up", "down"
  kDemonstration,  // {"prompt", "completion"}, {"messages"}: a good answer
};
std::string name(FeedbackKind kind);

enum class FeedbackForm {
  kSft,     // {"messages"}: good answers
  kPairs,   // {"prompt", "chosen", "rejected"}
  kRated,   // {"prompt", "completion", "label"}
  kRanked,  // {"prompt", "answers", "ranks"}
};
std::optional<FeedbackForm> feedback_form_named(const std::string& name);
std::vector<std::string> feedback_form_names();

// `prompt` and each answer are lists of {"role", "content"}; no answer is empty.
struct Feedback {
  FeedbackKind kind;
  Json prompt;
  std::vector<Json> answers;  // the best first
  std::vector<int64_t> ranks;
  std::string critique;  // kCritique without a revision; the only answer is the criticised one
  bool good = true;      // kThumb
};
Result<Feedback> read_feedback(const Json& record);

// The messages that ask a model for the revision of a criticised answer: the conversation, the critique, and
// a request to rewrite.
Json revision_request(const Feedback& feedback);
// Adds the revision as the better answer; an empty or unchanged one is ignored.
void add_revision(Feedback& feedback, const std::string& revision);

// Calls `use` with each record of this form; there is none if the feedback does not determine one (a thumb is
// not a pair). Each of the pairs of a ranking repeats the prompt: a ranking whose prompts would take more
// than kMaxRepeatedBytes is an error.
constexpr uint64_t kMaxRepeatedBytes = uint64_t{256} << 20;
Status for_each_record(const Feedback& feedback, FeedbackForm form,
                       const std::function<Status(const Json&)>& use);

}  // namespace makar
