#include "world/asking.h"

#include <fmt/format.h>

#include <algorithm>

namespace makar::world {

std::string Question::render(const std::string& v, bool in_sentence) const {
  if (!in_sentence || pattern.empty()) return capitalized(working + v) + ".";
  std::string out = pattern;
  out.replace(out.find("{}"), 2, v);
  const bool calculation = !working.empty() && !working.ends_with(", so ");
  return capitalized(working + (calculation ? v + ", so " : "") + out);
}

Scene::Scene(Story simulated, Draw& wording)
    : story(std::move(simulated)),
      sentences(render_story(story, wording)),
      text(join(sentences)),
      end(story) {
  for (const Event& e : story.events) end.apply(e);
}

std::vector<const Event*> Scene::actions_of(int who) const {
  return events_where([&](const Event& e) {
    return e.kind >= Kind::kGo && (e.a == who || (e.kind == Kind::kGo && e.b == who));
  });
}

std::vector<std::string> Scene::people_named() const {
  std::vector<std::pair<size_t, std::string>> found;
  const auto letter = [&](size_t at) {
    return at < text.size() && ((text[at] >= 'a' && text[at] <= 'z') || (text[at] >= 'A' && text[at] <= 'Z'));
  };
  for (size_t i = 0; i < story.people.size(); ++i) {
    const std::string one = name(static_cast<int>(i));
    for (size_t at = text.find(one); at != std::string::npos; at = text.find(one, at + 1))
      if (!letter(at + one.size()) && (at == 0 || !letter(at - 1))) {
        found.emplace_back(at, one);
        break;
      }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  for (auto& [at, one] : found) out.push_back(std::move(one));
  return out;
}

std::string one_of(Draw& d, std::initializer_list<std::string> forms) {
  return *(forms.begin() + d.below(forms.size()));
}

void add_wrong_people(Question& q, const Scene& s, Draw& d) {
  std::vector<Person> people = s.story.people;  // also wrong answers keep to the split
  add_wrong(q, d, s.people_named(), [&] {
    people.push_back(draw_person(d, people, s.story.split));
    return std::string(people.back().name);
  });
}

void add_wrong_places(Question& q, const Scene& s, Draw& d) {
  std::vector<std::string> named;
  for (const Place& p : s.story.places) named.push_back(at_place(p));
  add_wrong(q, d, named, [&] { return at_place(d.pick(places())); });
}

void add_wrong_numbers(Question& q, int value, Draw& d, int min) {
  add_wrong(q, d, {}, [&] { return number(std::clamp(value + d.from(-6, 6), min, 20)); });
}

void add_wrong_words(Question& q, const Scene& s, Draw& d, Kind kind, const Words& list,
                     const std::string& before) {
  std::vector<std::string> named;
  const bool articles = kind == Kind::kJob;
  const auto phrase = [&](Word word) { return before + (articles ? with_article(word) : std::string(word)); };
  for (const Event* e : s.events_of(kind)) named.push_back(phrase(e->word));
  add_wrong(q, d, named, [&] { return phrase(d.pick(list)); });
}

std::string action_phrase(const Scene& s, const Event& e) {
  const bool present = s.story.present;
  const auto verb = [&](const char* third, const char* past) { return std::string(present ? third : past); };
  switch (e.kind) {
    case Kind::kGo:
      return verb("goes", "went") + " to the " +
             std::string(s.story.places[static_cast<size_t>(e.place)].noun);
    case Kind::kTake:
      return verb("takes ", "took ") + s.thing(e.thing);
    case Kind::kDrop:
      return verb("puts down ", "put down ") + s.thing(e.thing);
    case Kind::kGive:
      return verb("gives ", "gave ") + s.thing(e.thing) + " to " + s.name(e.b);
    case Kind::kDo:
      return done(*e.activity, present);
    default:
      return "";
  }
}

namespace {

const std::vector<AskRow>& all_rows() {
  static const std::vector<AskRow> rows = [] {
    std::vector<AskRow> out;
    for (const auto* part : {&place_questions(), &number_questions(), &fact_questions(), &action_questions(),
                             &other_questions()})
      out.insert(out.end(), part->begin(), part->end());
    return out;
  }();
  return rows;
}

}  // namespace

const std::vector<std::string>& question_kinds() {
  static const std::vector<std::string> kinds = [] {
    std::vector<std::string> out;
    for (const AskRow& row : all_rows()) out.emplace_back(row.kind);
    return out;
  }();
  return kinds;
}

std::vector<Question> ask_several(const Scene& scene, Draw& d, int count, uint64_t kinds) {
  std::vector<Question> out;
  std::vector<AskRow> rows;
  const auto add_rows = [&](bool again) {  // a second time: those that are asked more often
    for (size_t i = 0; i < all_rows().size(); ++i)
      if (kinds == 0 || (kinds >> i & 1))
        rows.insert(rows.end(), static_cast<size_t>(again ? all_rows()[i].times - 1 : 1), all_rows()[i]);
  };
  add_rows(false);
  if (count > 1) add_rows(true);
  for (int round = 0; round < 4 && static_cast<int>(out.size()) < count; ++round) {
    d.shuffle(rows);
    for (const AskRow& row : rows) {
      if (static_cast<int>(out.size()) == count) break;
      if (row.always && round < 3 && !d.chance(1, count > 1 ? 8 : 4)) continue;
      Asked asked = row.ask(scene, d);
      if (!asked || (!asked->needs_story && !out.empty())) continue;
      const bool known =
          std::any_of(out.begin(), out.end(), [&](const Question& q) { return q.text == asked->text; });
      if (known) continue;
      asked->kind = row.kind;
      out.push_back(std::move(*asked));
      if (!out.back().needs_story) return out;
    }
  }
  return out;
}

Question ask(const Scene& scene, Draw& d, uint64_t kinds) {
  std::vector<Question> found = ask_several(scene, d, 1, kinds);
  return found.empty() ? ask_several(scene, d, 1).at(0) : std::move(found[0]);
}

}  // namespace makar::world
