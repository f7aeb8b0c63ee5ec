// Where people and things are, who has and owns things, who gave them.
#include <fmt/format.h>

#include <algorithm>

#include "world/asking.h"

namespace makar::world {
namespace {

Asked where_person(const Scene& s, Draw& d) {
  const int p =
      any_of(d, s.story.people.size(), [&](int i) { return s.end.where[static_cast<size_t>(i)] >= 0; });
  if (p < 0) return {};
  Question q{.query = {{"ask", "where"}, {"who", s.name(p)}}};
  q.text = one_of(d, {fmt::format("Where is {}?", s.name(p)), fmt::format("Where is {} now?", s.name(p)),
                      fmt::format("Where is {} at the end?", s.name(p))});
  q.value = s.place(s.end.where[static_cast<size_t>(p)]), q.pattern = s.name(p) + " is {}.";
  add_wrong_places(q, s, d);
  return q;
}

Asked where_thing(const Scene& s, Draw& d) {
  const int t = any_of(d, s.story.things.size(), [&](int i) { return s.end.where_thing(i) >= 0; });
  if (t < 0) return {};
  const std::string noun(s.story.things[static_cast<size_t>(t)].noun);
  Question q{.query = {{"ask", "where"}, {"object", noun}}};
  q.text = one_of(d, {fmt::format("Where is {}?", s.thing(t)), fmt::format("Where is the {}?", noun),
                      fmt::format("Where is the {} now?", noun)});
  q.value = s.place(s.end.where_thing(t)), q.pattern = s.thing(t) + " is {}.";
  add_wrong_places(q, s, d);
  return q;
}

// The last place but one, if the last place was visited once.
Asked where_before(const Scene& s, Draw& d) {
  const auto visits = [&](int i) -> const std::vector<int>& { return s.end.visited[static_cast<size_t>(i)]; };
  const int p = any_of(d, s.story.people.size(), [&](int i) {
    return visits(i).size() >= 2 && std::count(visits(i).begin(), visits(i).end(), visits(i).back()) == 1;
  });
  if (p < 0) return {};
  const int last = visits(p).back(), before = visits(p)[visits(p).size() - 2];
  const std::string there(s.story.places[static_cast<size_t>(last)].noun);
  Question q{.query = {{"ask", "where before"}, {"who", s.name(p)}, {"place", there}}};
  q.text = fmt::format("Where was {} before {} went to the {}?", s.name(p), s.person(p).he(), there);
  q.value = s.place(before), q.pattern = s.name(p) + " was {}.";
  add_wrong_places(q, s, d);
  return q;
}

Asked who_has(const Scene& s, Draw& d) {
  if (s.story.things.empty()) return {};
  const int t = d.below(s.story.things.size()), holder = s.end.holder[static_cast<size_t>(t)];
  if (holder < 0 && !d.chance(1, 4)) return {};  // "nobody" stays rare
  const std::string noun(s.story.things[static_cast<size_t>(t)].noun);
  Question q{.query = {{"ask", "who has"}, {"object", noun}}};
  q.text = one_of(d, {fmt::format("Who has the {}?", noun), fmt::format("Who has {}?", s.thing(t)),
                      fmt::format("Who is carrying the {}?", noun)});
  q.value = holder < 0 ? "nobody" : s.name(holder), q.pattern = "{} has " + s.thing(t) + ".";
  add_wrong_people(q, s, d);
  return q;
}

Asked who_gave(const Scene& s, Draw& d) {
  const auto gives = s.events_of(Kind::kGive);
  const bool giver = d.chance(1, 2);
  const int i = any_of(d, gives.size(), [&](int k) {
    const Event& e = *gives[static_cast<size_t>(k)];
    return std::count_if(gives.begin(), gives.end(), [&](const Event* o) {
             return o->thing == e.thing && (giver ? o->b == e.b : o->a == e.a);
           }) == 1;
  });
  if (i < 0) return {};
  const Event& e = *gives[static_cast<size_t>(i)];
  const std::string noun(s.story.things[static_cast<size_t>(e.thing)].noun),
      verb = s.story.present ? "gives" : "gave";
  Question q;
  if (giver) {
    q.query = {{"ask", "who gave"}, {"object", noun}, {"to", s.name(e.b)}};
    q.text = fmt::format("Who {} the {} to {}?", verb, noun, s.name(e.b));
    q.value = s.name(e.a), q.pattern = fmt::format("{{}} {} the {} to {}.", verb, noun, s.name(e.b));
  } else {
    q.query = {{"ask", "who got"}, {"object", noun}, {"from", s.name(e.a)}};
    q.text = fmt::format("Who {} {} give the {} to?", s.story.present ? "does" : "did", s.name(e.a), noun);
    q.value = s.name(e.b), q.pattern = fmt::format("{} {} the {} to {{}}.", s.name(e.a), verb, noun);
  }
  add_wrong_people(q, s, d);
  return q;
}

Asked owner(const Scene& s, Draw& d) {
  const auto owns = s.events_of(Kind::kOwns);
  if (owns.empty()) return {};
  const Event& e = *d.pick(owns);
  const std::string noun(s.story.things[static_cast<size_t>(e.thing)].noun);
  Question q{.query = {{"ask", "owner"}, {"object", noun}}};
  q.text =
      one_of(d, {fmt::format("Who does the {} belong to?", noun), fmt::format("Who owns the {}?", noun)});
  q.value = s.name(e.a), q.pattern = fmt::format("The {} belongs to {{}}.", noun);
  add_wrong_people(q, s, d);
  return q;
}

Asked colour(const Scene& s, Draw& d) {
  if (s.story.things.empty()) return {};
  const Thing& t = d.pick(s.story.things);
  Question q{.query = {{"ask", "colour"}, {"object", std::string(t.noun)}}};
  q.text = one_of(d, {fmt::format("What colour is the {}?", t.noun),
                      fmt::format("Which colour does the {} have?", t.noun)});
  q.value = t.colour, q.pattern = fmt::format("The {} is {{}}.", t.noun);
  std::vector<std::string> named;
  for (const Thing& other : s.story.things) named.emplace_back(other.colour);
  add_wrong(q, d, named, [&] { return std::string(d.pick(colours())); });
  return q;
}

Asked who_is_there(const Scene& s, Draw& d) {
  const int place = any_of(d, s.story.places.size(),
                           [&](int i) { return std::count(s.end.where.begin(), s.end.where.end(), i) == 1; });
  if (place < 0) return {};
  const auto found = std::find(s.end.where.begin(), s.end.where.end(), place);
  const Place& p = s.story.places[static_cast<size_t>(place)];
  Question q{.query = {{"ask", "who is there"}, {"place", std::string(p.noun)}}};
  q.text = fmt::format("Who is {}?", at_place(p));
  q.value = s.name(static_cast<int>(found - s.end.where.begin())),
  q.pattern = fmt::format("{{}} is {}.", at_place(p));
  add_wrong_people(q, s, d);
  return q;
}

Asked carrying(const Scene& s, Draw& d) {
  const int p = any_of(d, s.story.people.size(),
                       [&](int i) { return std::count(s.end.holder.begin(), s.end.holder.end(), i) > 0; });
  if (p < 0) return {};
  std::vector<std::string> held, others;
  for (size_t t = 0; t < s.story.things.size(); ++t)
    (s.end.holder[t] == p ? held : others).push_back(s.thing(static_cast<int>(t)));
  Question q{.query = {{"ask", "carrying"}, {"who", s.name(p)}}};
  q.text = one_of(
      d, {fmt::format("What is {} carrying?", s.name(p)), fmt::format("What does {} have?", s.name(p))});
  q.value = listed(held), q.pattern = s.name(p) + " has {}.";
  others.emplace_back("nothing");
  add_wrong(q, d, others, [&] {
    const Word a = d.pick(colours()), b = d.pick(objects());
    return fmt::format("the {} {}", a, b);
  });
  return q;
}

}  // namespace

const std::vector<AskRow>& place_questions() {
  static const std::vector<AskRow> rows = {{"where_person", where_person},
                                           {"where_object", where_thing},
                                           {"where_before", where_before},
                                           {"who_has", who_has},
                                           {"who_gave", who_gave},
                                           {"owner", owner},
                                           {"colour", colour},
                                           {"who_is_there", who_is_there},
                                           {"carrying", carrying}};
  return rows;
}

}  // namespace makar::world
