// Yes or no with the fact that decides it, lists of people, and sentences in the past tense.
#include <fmt/format.h>

#include "world/asking.h"

namespace makar::world {
namespace {

// A question with a value, and the sentence with the true value, which decides it: "Anna is in the barn, so
// no."
Question yes_no(const Question& fact, Draw& d, const std::string& question_pattern) {
  const bool yes = d.chance(1, 2);
  const std::string shown = yes ? fact.value : fact.wrong[0];
  Question q{.query = {{"ask", "yes or no"}, {"value", shown}, {"about", fact.query}}};
  q.text = question_pattern;
  q.text.replace(q.text.find("{}"), 2, shown);
  const auto sentence = [&](const std::string& value) {
    std::string out = fact.pattern;
    out.replace(out.find("{}"), 2, value);
    out.pop_back();
    return out;
  };
  q.value = sentence(fact.value) + (yes ? ", so yes" : ", so no");
  q.wrong.push_back(sentence(fact.wrong[0]) + (yes ? ", so no" : ", so yes"));
  for (size_t i = 1; i < fact.wrong.size(); ++i) q.wrong.push_back(sentence(fact.wrong[i]) + ", so no");
  return q;
}

Asked decide(const Scene& s, Draw& d) {
  struct Row {
    const std::vector<AskRow>& table;
    const char* kind;
    const char* before;  // words of the question around the value
    const char* after;
  };
  // "Is Anna {}?", "Does Anna have {} apples?", ...; NAME is the person or thing of the fact.
  static const Row rows[] = {{place_questions(), "where_person", "Is NAME ", "?"},
                             {place_questions(), "where_object", "Is NAME ", "?"},
                             {place_questions(), "who_has", "Does ", " have NAME?"},
                             {place_questions(), "colour", "Is NAME ", "?"},
                             {fact_questions(), "job", "Is NAME ", "?"},
                             {fact_questions(), "town", "Does NAME live ", "?"},
                             {fact_questions(), "likes", "Does NAME like ", "?"},
                             {number_questions(), "age", "Is NAME ", " years old?"}};
  std::vector<const Row*> order;
  for (const Row& row : rows) order.push_back(&row);
  d.shuffle(order);
  for (const Row* row : order)
    for (const AskRow& entry : row->table) {
      if (std::string_view(entry.kind) != row->kind) continue;
      const Asked fact = entry.ask(s, d);
      if (!fact || fact->value == "nobody") break;
      const bool person = fact->query.contains("who");
      const std::string name =
          (person ? "" : "the ") + fact->query[person ? "who" : "object"].get<std::string>();
      std::string pattern = std::string(row->before) + "{}" + row->after;
      pattern.replace(pattern.find("NAME"), 4, name);
      return yes_no(*fact, d, pattern);
    }
  return {};
}

Asked people(const Scene& s, Draw& d) {
  std::vector<std::string> names = s.people_named();
  Question q{.query = {{"ask", "people"}}};
  q.text = one_of(d, {"Who are the people in the story?", "Name the people in the story.",
                      "List the people in this story."});
  q.value = listed(names);
  std::vector<Person> people = s.story.people;
  add_wrong(q, d, {}, [&] {  // one person exchanged
    people.push_back(draw_person(d, people, s.story.split));
    std::vector<std::string> other = names;
    other[static_cast<size_t>(d.below(other.size()))] = std::string(people.back().name);
    return listed(other);
  });
  return q;
}

Asked past_tense(const Scene& s, Draw& d) {
  const std::vector<std::string> names = s.people_named();
  const Activity& activity = d.pick(activities());
  const bool plural = d.chance(1, 2);
  const std::string rest(activity.complement);
  const std::string before = plural ? names[0] + " and " + names[1] + " " : names[0] + " ";
  const std::string end = plural ? "" : " with " + names[1];
  const auto sentence = [&](Word verb) { return fmt::format("{}{} {}{}", before, verb, rest, end); };
  const std::string present = sentence(plural ? activity.verb.base : activity.verb.third);
  Question q{.query = {{"ask", "past tense"}, {"sentence", present}}};
  q.text = one_of(d, {"Write this in the past tense: ", "Put this sentence into the past tense: ",
                      "Change the sentence to the past tense: "}) +
           present + ".";
  q.value = sentence(activity.verb.past), q.needs_story = false;
  std::vector<std::string> named;
  const std::string forms[] = {
      "is " + std::string(activity.verb.base), "has " + std::string(activity.verb.base),
      "will " + std::string(activity.verb.base), "must " + std::string(activity.verb.base)};
  for (const std::string& form : forms) named.push_back(sentence(form));
  add_wrong(q, d, named, [&] { return sentence(d.pick(activities()).verb.past); });
  return q;
}

}  // namespace

const std::vector<AskRow>& other_questions() {
  static const std::vector<AskRow> rows = {
      {"yes_no", decide, false, 2}, {"people", people, true}, {"past_tense", past_tense, true}};
  return rows;
}

}  // namespace makar::world
