// Records of the world in the schemas of datasets. Record i is a pure function of (options, i).
#pragma once
#include "base/error.h"
#include "world/question.h"

namespace makar::world {

enum class Form {
  kText,          // {"text"}: documents for pretraining
  kInstructions,  // {"messages"}: conversations
  kPreferences,   // {"prompt", "chosen", "rejected", "kind"}
  kRanked,        // {"prompt", "answers", "ranks"}: 4 to 9 answers, best first
  kRewards,       // {"id", "prompt", "answer"}: prompts with the answer that the checker expects
  kQuestions,  // {"id", "context", "question", "answer", "query", "people", "events", ...}: the story as data
  kPrompts,    // {"messages"}: only the question, for makar generate --jsonl
  kUnfiltered,  // {"messages", "kind"}: the question with an answer that is right or worse in one of four
                // ways
};
const std::vector<std::string>& form_names();
std::optional<Form> form_named(const std::string& name);
const std::vector<std::string>& split_names();
std::optional<Split> split_named(const std::string& name);

// A story and the question of the record; the same for every form that has one question.
struct Sample {
  Sample(const WorldOptions& options, uint64_t record);
  Scene scene;
  Question question;
  bool in_sentence;    // false if the prompt asks for a short answer
  std::string prompt;  // the story and the question
  std::string answer() const { return question.answer(in_sentence); }
};

Json make_record(Form form, const WorldOptions& options, uint64_t record);

// "world4-test-7-4-123": version, split, seed, events, record; then the kinds if not all.
std::string record_id(const WorldOptions& options, uint64_t record);
struct RecordId {
  WorldOptions options;
  uint64_t record;
};
Result<RecordId> parse_id(const std::string& id);
// Untrusted text as a JSON string in ASCII, cut after 100 bytes, for messages.
std::string escaped(const std::string& text);

// The events of a story as data, with the names that the text uses.
Json events_json(const Story& story);

// Wrong, off-topic, rude or too long: an answer that is worse than the right one, and in what way.
struct WorseAnswer {
  std::string kind, text;
};
constexpr const char* kWorseKinds[] = {"too_long", "rude", "wrong", "off_topic"};  // from better to worse
WorseAnswer worse_answer(const Sample& sample, Draw& draw, int kind);

}  // namespace makar::world
