// The order of actions, their times and reasons.
#include <fmt/format.h>

#include <algorithm>

#include "world/asking.h"

namespace makar::world {
namespace {

bool has_phrase(const Event& e) {
  return (e.kind >= Kind::kGo && e.kind <= Kind::kGive) || (e.kind == Kind::kDo && e.n == 0);
}

void add_wrong_actions(Question& q, const Scene& s, Draw& d, const std::string& who) {
  std::vector<std::string> named;
  for (const Event& e : s.story.events)
    if (e.kind >= Kind::kGo && !action_phrase(s, e).empty()) named.push_back(who + " " + action_phrase(s, e));
  add_wrong(q, d, named, [&] { return who + " " + done(d.pick(activities()), s.story.present); });
}

Asked first(const Scene& s, Draw& d) {
  const int p = any_of(d, s.story.people.size(), [&](int i) {
    const auto all = s.actions_of(i);
    return all.size() >= 2 && has_phrase(*all[0]);
  });
  if (p < 0) return {};
  Question q{.query = {{"ask", "first"}, {"who", s.name(p)}}};
  q.text = fmt::format("What {} {} do first?", s.story.present ? "does" : "did", s.name(p));
  q.value = fmt::format("{} {}", s.person(p).he(), action_phrase(s, *s.actions_of(p)[0]));
  add_wrong_actions(q, s, d, std::string(s.person(p).he()));
  return q;
}

// Two consecutive actions of one person: names one, which occurs once, and asks for the other.
Asked after(const Scene& s, Draw& d) {
  struct Pair {
    int person;
    const Event *known, *asked;
  };
  const bool forward = d.chance(2, 3);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < s.story.people.size(); ++i) {
    const auto all = s.actions_of(static_cast<int>(i));
    for (size_t k = 0; k + 1 < all.size(); ++k) {
      const Event *known = all[forward ? k : k + 1], *asked = all[forward ? k + 1 : k];
      if (!has_phrase(*known) || !has_phrase(*asked)) continue;
      const bool once = std::count_if(all.begin(), all.end(), [&](const Event* e) {
                          return action_phrase(s, *e) == action_phrase(s, *known);
                        }) == 1;
      if (once) pairs.push_back({static_cast<int>(i), known, asked});
    }
  }
  if (pairs.empty()) return {};
  const Pair pair = d.pick(pairs);
  const std::string name = s.name(pair.person), he(s.person(pair.person).he()),
                    word = forward ? "after" : "before";
  Question q{.query = {{"ask", word}, {"who", name}, {"action", action_phrase(s, *pair.known)}}};
  q.text = fmt::format("What {} {} do right {} {} {}?", s.story.present ? "does" : "did", name, word, he,
                       action_phrase(s, *pair.known));
  q.value = he + " " + action_phrase(s, *pair.asked);
  add_wrong_actions(q, s, d, he);
  return q;
}

// An activity that occurs once.
const Event* any_activity(const Scene& s, Draw& d, bool timed) {
  const auto all = s.events_of(Kind::kDo);
  const int i = any_of(d, all.size(), [&](int k) {
    const Event& e = *all[static_cast<size_t>(k)];
    return (!timed || e.n > 0) && std::count_if(all.begin(), all.end(), [&](const Event* o) {
                                    return o->activity == e.activity;
                                  }) == 1;
  });
  return i < 0 ? nullptr : all[static_cast<size_t>(i)];
}

Asked who_did(const Scene& s, Draw& d) {
  const Event* e = any_activity(s, d, false);
  if (!e) return {};
  const std::string what = done(*e->activity, s.story.present);
  Question q{.query = {{"ask", "who did"}, {"action", what}}};
  q.text = fmt::format("Who {}?", what), q.value = s.name(e->a), q.pattern = "{} " + what + ".";
  add_wrong_people(q, s, d);
  return q;
}

std::string clock(int hour) { return "at " + number(hour) + " o'clock"; }

// Hours as the question's values are written: as a number or as a time.
void add_wrong_hours(Question& q, const Scene& s, Draw& d, std::string (*written)(int) = clock) {
  std::vector<std::string> named;
  for (const Event& e : s.story.events)
    if (e.n > 0 && (e.kind == Kind::kDo || e.kind == Kind::kTrip)) named.push_back(written(e.n));
  add_wrong(q, d, named, [&] { return written(d.from(1, 12)); });
}

Asked when(const Scene& s, Draw& d) {
  const Event* e = any_activity(s, d, true);
  if (!e) return {};
  const std::string name = s.name(e->a), base(e->activity->verb.base), rest(e->activity->complement);
  Question q{.query = {{"ask", "when"}, {"action", done(*e->activity, s.story.present)}}};
  const char* does = s.story.present ? "does" : "did";
  q.text = one_of(d, {fmt::format("When {} {} {} {}?", does, name, base, rest),
                      fmt::format("At what time {} {} {} {}?", does, name, base, rest)});
  q.value = clock(e->n), q.pattern = fmt::format("{} {} {{}}.", name, done(*e->activity, s.story.present));
  add_wrong_hours(q, s, d);
  return q;
}

Asked what_at(const Scene& s, Draw& d) {
  const Event* e = any_activity(s, d, true);
  if (!e) return {};
  Question q{.query = {{"ask", "what at"}, {"who", s.name(e->a)}, {"hour", e->n}}};
  q.text = fmt::format("What {} {} do at {} o'clock?", s.story.present ? "does" : "did", s.name(e->a),
                       number(e->n));
  q.value = fmt::format("{} {}", s.person(e->a).he(), done(*e->activity, s.story.present));
  add_wrong_actions(q, s, d, std::string(s.person(e->a).he()));
  return q;
}

Asked arrival(const Scene& s, Draw& d) {
  const auto trips = s.events_of(Kind::kTrip);
  if (trips.empty()) return {};
  const Event& e = *d.pick(trips);
  const bool leaving = d.chance(1, 4);
  Question q{.query = {{"ask", leaving ? "leaves" : "arrives"}, {"who", s.name(e.a)}}};
  const char* does = s.story.present ? "does" : "did";
  q.text = leaving ? fmt::format("When {} {} leave?", does, s.name(e.a))
                   : fmt::format("When {} {} arrive in {}?", does, s.name(e.a), e.word);
  const auto verb = [&](const char* third, const char* past) { return s.story.present ? third : past; };
  if (leaving) {
    q.value = clock(e.n), q.pattern = fmt::format("{} {} {{}}.", s.name(e.a), verb("leaves", "left"));
    add_wrong_hours(q, s, d);
  } else {
    q.value = number(e.n + e.hours);
    q.working = fmt::format("{} {} at {}; {} plus {} is ", s.name(e.a), verb("leaves", "left"), number(e.n),
                            number(e.n), number(e.hours));
    q.pattern = fmt::format("{} {} at {{}} o'clock.", s.name(e.a), verb("arrives", "arrived"));
    add_wrong_hours(q, s, d, number);
  }
  return q;
}

// The reason of a walk; the person walks to that place once.
Asked why(const Scene& s, Draw& d) {
  const auto walks = s.events_of(Kind::kGo);
  const int i = any_of(d, walks.size(), [&](int k) {
    const Event& e = *walks[static_cast<size_t>(k)];
    return !e.word.empty() && std::count_if(walks.begin(), walks.end(), [&](const Event* o) {
                                return o->place == e.place && (o->a == e.a || o->b == e.a);
                              }) == 1;
  });
  if (i < 0) return {};
  const Event& e = *walks[static_cast<size_t>(i)];
  const std::string place(s.story.places[static_cast<size_t>(e.place)].noun), he(s.person(e.a).he());
  const std::string before = fmt::format("because {} {} ", he, s.story.present ? "is" : "was");
  Question q{.query = {{"ask", "why"}, {"who", s.name(e.a)}, {"place", place}}};
  q.text = fmt::format("Why {} {} go to the {}?", s.story.present ? "does" : "did", s.name(e.a), place);
  q.value = before + std::string(e.word);
  std::vector<std::string> named;
  for (const Event* walk : walks)
    if (!walk->word.empty()) named.push_back(before + std::string(walk->word));
  add_wrong(q, d, named, [&] { return before + std::string(d.pick(feelings())); });
  return q;
}

}  // namespace

const std::vector<AskRow>& action_questions() {
  static const std::vector<AskRow> rows = {{"first", first},     {"after", after},
                                           {"who_did", who_did}, {"when", when},
                                           {"what_at", what_at}, {"arrival", arrival, false, 3},
                                           {"why", why}};
  return rows;
}

}  // namespace makar::world
