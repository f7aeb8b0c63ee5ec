// Jobs, towns, foods, relatives, pets and the weather.
#include <fmt/format.h>

#include "world/asking.h"

namespace makar::world {
namespace {

const Event* any_event(const Scene& s, Draw& d, Kind kind) {
  const auto events = s.events_of(kind);
  return events.empty() ? nullptr : d.pick(events);
}

Asked job(const Scene& s, Draw& d) {
  const Event* e = any_event(s, d, Kind::kJob);
  if (!e) return {};
  Question q{.query = {{"ask", "job"}, {"who", s.name(e->a)}}};
  q.text = one_of(d, {fmt::format("What is {}'s job?", s.name(e->a)),
                      fmt::format("What does {} work as?", s.name(e->a))});
  q.value = with_article(e->word), q.pattern = s.name(e->a) + " is {}.";
  add_wrong_words(q, s, d, Kind::kJob, jobs());
  return q;
}

Asked town(const Scene& s, Draw& d) {
  const Event* e = any_event(s, d, Kind::kTown);
  if (!e) return {};
  Question q{.query = {{"ask", "town"}, {"who", s.name(e->a)}}};
  q.text = one_of(d, {fmt::format("Where does {} live?", s.name(e->a)),
                      fmt::format("Where is {}'s house?", s.name(e->a))});
  q.value = "in " + std::string(e->word), q.pattern = s.name(e->a) + " lives {}.";
  add_wrong_words(q, s, d, Kind::kTown, towns(), "in ");
  return q;
}

Asked likes(const Scene& s, Draw& d) {
  const Event* e = any_event(s, d, Kind::kLikes);
  if (!e) return {};
  Question q{.query = {{"ask", "likes"}, {"who", s.name(e->a)}}};
  q.text = one_of(d, {fmt::format("What does {} like?", s.name(e->a)),
                      fmt::format("Which food does {} like?", s.name(e->a))});
  q.value = e->word, q.pattern = s.name(e->a) + " likes {}.";
  add_wrong_words(q, s, d, Kind::kLikes, foods());
  return q;
}

// The person of a fact.
Asked who_fact(const Scene& s, Draw& d) {
  constexpr Kind kKinds[] = {Kind::kJob, Kind::kTown, Kind::kLikes};
  const auto facts = s.events_where(
      [&](const Event& e) { return e.kind == kKinds[0] || e.kind == kKinds[1] || e.kind == kKinds[2]; });
  if (facts.empty()) return {};
  const Event& e = *d.pick(facts);
  const std::string word(e.word);
  Question q{.query = {{"ask", "who is"}, {"word", word}}};
  const std::string rest = e.kind == Kind::kJob    ? "is " + with_article(word)
                           : e.kind == Kind::kTown ? "lives in " + word
                                                   : "likes " + word;
  q.text = fmt::format("Who {}?", rest), q.value = s.name(e.a), q.pattern = "{} " + rest + ".";
  add_wrong_people(q, s, d);
  return q;
}

Asked relation(const Scene& s, Draw& d) {
  const Event* e = any_event(s, d, Kind::kRelation);
  if (!e) return {};
  const std::string word(e->word);
  Question q{.query = {{"ask", "relation"}, {"who", s.name(e->a)}, {"word", word}}};
  q.text = one_of(d, {fmt::format("Who is {}'s {}?", s.name(e->a), word),
                      fmt::format("Who is the {} of {}?", word, s.name(e->a))});
  q.value = s.name(e->b), q.pattern = fmt::format("{{}} is {}'s {}.", s.name(e->a), word);
  add_wrong_people(q, s, d);
  return q;
}

Asked pet(const Scene& s, Draw& d) {
  const Event* e = any_event(s, d, Kind::kPet);
  if (!e) return {};
  const Pet& p = s.story.pets[static_cast<size_t>(e->n)];
  const std::string name(p.name), animal(p.animal), who = s.name(e->a);
  const int choice = d.below(3);
  Question q;
  std::vector<std::string> named;
  if (choice == 0) {
    q.query = {{"ask", "animal"}, {"pet", name}};
    q.text = fmt::format("What kind of animal is {}?", name);
    q.value = with_article(animal), q.pattern = name + " is {}.";
    for (const Pet& other : s.story.pets) named.push_back(with_article(other.animal));
    add_wrong(q, d, named, [&] { return with_article(d.pick(animals())); });
  } else if (choice == 1) {
    q.query = {{"ask", "pet name"}, {"who", who}};
    q.text = fmt::format("What is {}'s {} called?", who, animal);
    q.value = name, q.pattern = fmt::format("{}'s {} is called {{}}.", who, animal);
    for (const Pet& other : s.story.pets) named.emplace_back(other.name);
    add_wrong(q, d, named, [&] { return std::string(d.pick(pet_names())); });
  } else {
    q.query = {{"ask", "pet owner"}, {"pet", name}};
    q.text = fmt::format("Who owns {} the {}?", name, animal);
    q.value = who, q.pattern = fmt::format("{{}} owns {} the {}.", name, animal);
    add_wrong_people(q, s, d);
  }
  return q;
}

Asked weather(const Scene& s, Draw& d) {
  const auto named = s.events_of(Kind::kWeather);
  if (named.empty()) return {};
  const bool now = d.chance(1, 2);
  Question q{.query = {{"ask", now ? "weather now" : "weather first"}}};
  q.text =
      now ? one_of(d, {"What is the weather like now?", "What is the weather like at the end?"})
          : one_of(d, {"What was the weather like at first?", "What was the weather like at the start?"});
  q.value = (now ? named.back() : named.front())->word,
  q.pattern = now ? "It is {} now." : "It was {} at first.";
  add_wrong_words(q, s, d, Kind::kWeather, weathers());
  return q;
}

}  // namespace

const std::vector<AskRow>& fact_questions() {
  static const std::vector<AskRow> rows = {{"job", job, false, 3},     {"town", town, false, 3},
                                           {"likes", likes, false, 3}, {"who_fact", who_fact},
                                           {"relation", relation},     {"pet", pet},
                                           {"weather", weather}};
  return rows;
}

}  // namespace makar::world
