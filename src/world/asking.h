// What the functions that make questions share; private to the module.
#pragma once
#include <optional>

#include "world/question.h"

namespace makar::world {

using Asked = std::optional<Question>;
struct AskRow {
  const char* kind;
  Asked (*ask)(const Scene&, Draw&);
  bool always = false;  // every story can answer it: asked less often than it could be
  int times = 1;        // how often one round of a conversation asks it, about different people
};
const std::vector<AskRow>& place_questions();   // where, who has, who gave, ...
const std::vector<AskRow>& number_questions();  // how many, together, older, ...
const std::vector<AskRow>& fact_questions();    // jobs, towns, pets, weather, ...
const std::vector<AskRow>& action_questions();  // first, after, when, why, ...
const std::vector<AskRow>& other_questions();   // yes or no, lists, past tense

// One of the numbers 0 to n - 1 that satisfies a condition, or -1.
template <class Condition>
int any_of(Draw& d, size_t n, Condition condition) {
  std::vector<int> fitting;
  for (size_t i = 0; i < n; ++i)
    if (condition(static_cast<int>(i))) fitting.push_back(static_cast<int>(i));
  return fitting.empty() ? -1 : d.pick(fitting);
}

constexpr size_t kWrong = 5;
// Adds wrong values: those of the story first, in random order, then made ones.
template <class Make>
void add_wrong(Question& q, Draw& d, std::vector<std::string> named, Make make) {
  const auto add = [&](const std::string& value) {
    if (value == q.value) return;
    for (const std::string& known : q.wrong)
      if (known == value) return;
    if (q.wrong.size() < kWrong) q.wrong.push_back(value);
  };
  d.shuffle(named);
  for (const std::string& value : named) add(value);
  while (q.wrong.size() < kWrong) add(make());
}
void add_wrong_people(Question& q, const Scene& s, Draw& d);
void add_wrong_places(Question& q, const Scene& s, Draw& d);
void add_wrong_numbers(Question& q, int value, Draw& d, int min = 0);
void add_wrong_words(Question& q, const Scene& s, Draw& d, Kind kind, const Words& list,
                     const std::string& before = "");

std::string action_phrase(const Scene& s, const Event& e);  // "took the red kite": one form per action
std::string one_of(Draw& d, std::initializer_list<std::string> forms);

}  // namespace makar::world
