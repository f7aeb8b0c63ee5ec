// Questions whose answers follow from a story, with wrong answers of the same kind.
#pragma once
#include "base/json.h"
#include "world/render.h"

namespace makar::world {

struct Question {
  std::string kind = {};                // "where_person"
  Json query = {};                      // the question as data: {"ask": "where", "who": "Anna"}
  std::string text = {};                // "Where is Anna?"
  std::string value = {};               // "in the barn"
  std::string working = {};             // "nine minus seven is ", or "Ben is nine; Anna is seven, so ";
                                        // precedes the value; empty for most kinds
  std::string pattern = {};             // "Anna is {}."; empty if the value is a sentence already
  std::vector<std::string> wrong = {};  // values that are not the answer
  bool needs_story = true;

  std::string answer(bool in_sentence = false) const { return render(value, in_sentence); }
  // A value as an answer: "In the barn." or "Anna is in the barn."; with working "Nine minus seven is two."
  // or "Nine minus seven is two, so Anna is two years older than Ben."; with facts as working "Ben is nine;
  // Anna is seven, so Ben is older."
  std::string render(const std::string& value, bool in_sentence) const;
};

// A story with its text, and where everything is in the end.
struct Scene {
  Scene(Story story, Draw& wording);
  Story story;
  std::vector<Sentence> sentences;
  std::string text;
  State end;

  const Person& person(int i) const { return story.people[static_cast<size_t>(i)]; }
  std::string name(int i) const { return std::string(person(i).name); }
  std::string thing(int i) const { return full_name(story.things[static_cast<size_t>(i)]); }
  std::string place(int i) const { return at_place(story.places[static_cast<size_t>(i)]); }
  // The events that satisfy a condition, or of one kind.
  template <class Condition>
  std::vector<const Event*> events_where(Condition condition) const {
    std::vector<const Event*> out;
    for (const Event& e : story.events)
      if (condition(e)) out.push_back(&e);
    return out;
  }
  std::vector<const Event*> events_of(Kind kind) const {
    return events_where([&](const Event& e) { return e.kind == kind; });
  }
  // What the person does, in order.
  std::vector<const Event*> actions_of(int person) const;
  std::vector<std::string> people_named() const;  // names in the order of their first mention
};

// The kinds of questions, in a fixed order.
const std::vector<std::string>& question_kinds();
// A question of a random kind among those that the story can answer; of one of `kinds` (see WorldOptions) if
// it can answer any of them.
Question ask(const Scene& scene, Draw& draw, uint64_t kinds = 0);
// Up to `count` different questions of these kinds.
std::vector<Question> ask_several(const Scene& scene, Draw& draw, int count, uint64_t kinds = 0);

}  // namespace makar::world
